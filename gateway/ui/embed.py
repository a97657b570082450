# SPDX-License-Identifier: Apache-2.0
"""Converts the files of the page to the C table of assets.h: embed.py FILE... prints name, media type, ETag and bytes of each.
Scripts are sent without indentation, empty lines and lines of comments: a fifth less to load. Addresses in index.html are relative,
so that a proxy may serve the page below any path; target.html is the same page two folders deeper, at /t/NAME/."""

import hashlib
import os
import sys

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def served(name, data):
    """What the browser gets. Templates do not span lines, so that indentation never matters."""
    if not name.endswith(".js"):
        return data
    lines = [line.strip() for line in data.split(b"\n")]
    return b"\n".join(line for line in lines if line and not line.startswith(b"//")) + b"\n"


def read_files(paths):
    """Names and bytes of what is served, sorted by name."""
    files = {}
    for path in paths:
        name = os.path.basename(path)
        with open(path, "rb") as file:
            files[name] = served(name, file.read())
    if "index.html" in files:
        files["target.html"] = files["index.html"].replace(b'="ui/', b'="../../ui/').replace(b'href="."', b'href="../../"')
    return sorted(files.items())


def embed(number, name, data):
    """The array of a file's bytes, and its row of the table."""
    rows = [data[at:at + 20] for at in range(0, len(data), 20)]
    numbers = ",\n    ".join(", ".join(str(byte) for byte in row) for row in rows)
    etag = hashlib.sha256(data).hexdigest()[:16]
    array = f"static const unsigned char bytes_{number}[] = {{\n    {numbers}}};\n"
    row = (f'    {{"{name}", "{MEDIA_TYPES[os.path.splitext(name)[1]]}", "W/\\"{etag}\\"",\n'
           f"     {{(const char *)bytes_{number}, {len(data)}}}}},\n")
    return array, row


def main():
    files = read_files(sys.argv[1:])
    parts = [embed(number, *file) for number, file in enumerate(files)]
    print('#include "gateway/ui/assets.h"\n')
    print("\n".join(array for array, _ in parts))
    print("const struct ui_asset ui_assets[] = {\n" + "".join(row for _, row in parts) + "};\n")
    print(f"const size_t ui_asset_count = {len(files)};")


if __name__ == "__main__":
    main()
