# SPDX-License-Identifier: Apache-2.0
"""The rules of page.py find what they are for, and nothing else."""

from tests.cli import check
from tests.lint import page

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def found(name, text, build=None):
    return [(line, sentence) for _, line, sentence in page.check_all({name: text}, f'"{name}"' if build is None else build)]


def test_a_small_script_has_no_mistakes():
    check.equal(found("main.js", SPDX + 'const ns = "http://www.w3.org/2000/svg";\nexport function f(a) {\n    return a;\n}\n'), [])
    check.equal(found("style.css", "/* SPDX-License-Identifier: Apache-2.0 */\nbody { color: red; }\n"), [])


def test_a_long_function_is_found_whatever_its_strings_contain():
    body = '    const text = "}";\n    const other = `}${a ? "}" : `}`}\n}`;\n    const re = /[}"]/g; // }\n' * 15
    for head in ("function f() {", "const f = (a) => {", "class A {\n    static async m(a, b) {", "export default function () {"):
        end = "}\n}\n" if "class" in head else "}\n"
        lines = [sentence for _, sentence in found("main.js", SPDX + head + "\n" + body + end)]
        check.equal(len([line for line in lines if line.startswith("function of")]), 1)
    check.equal(found("main.js", SPDX + "if (a) {\n" + "    b();\n" * 100 + "}\n"), [])
    check.equal(found("main.js", SPDX + "function f() {\n" + "    b();\n" * 58 + "}\n"), [])


def test_text_that_becomes_markup_or_code_is_found():
    for line in ("a.innerHTML = b;", "a.outerHTML = b", "a.insertAdjacentHTML('x', b)", "document.write(a)", "eval(a)", "new Function(a)",
                 "a.setAttribute('onclick', b)", "a.href = 'javascript:b'", "a.srcdoc = b"):
        check.equal(len(found("main.js", SPDX + line)), 1)
    check.equal(found("main.js", SPDX + "b = `${a.outerHTML}`; if (a.innerHTML === b) c();"), [])
    check.equal(found("main.js", SPDX + "a.textContent = b; retrieval(a); a.setAttribute('role', b);"), [])


def test_other_hosts_are_found():
    for line in ('fetch("https://example.com/x")', "import 'http://cdn.example/x.js'", 'new WebSocket("wss://example.com")', 'a("//example.com/x")'):
        check.equal([sentence.split(":")[0] for _, sentence in found("main.js", SPDX + line)], ["names another host"])
    check.equal(found("main.js", SPDX + 'fetch("/v1/info") // a comment'), [])


def test_inline_scripts_and_styles_are_found():
    for line in ("<script>a()</script>", "<style>a{}</style>", '<body onload="a()">', '<p style="color:red">'):
        check.equal(len(found("index.html", line)), 1)
    check.equal(found("index.html", '<script type="module" src="/ui/main.js"></script><p class="style">on = 1</p>'), [])


def test_sizes_and_licences_are_checked():
    check.equal([sentence for _, sentence in found("main.js", "a\n")], ["no SPDX-License-Identifier line"])
    check.equal([sentence for _, sentence in found("main.js", SPDX + "a\n" * 500)], ["file of 501 lines; 500 are allowed"])
    check.equal(found("main.js", SPDX, build=""), [(1, "BUILD.bazel does not embed this file")])
    many = {f"{number}.js": SPDX + "    a\n" * 499 + "\n" for number in range(11)}
    sentences = [sentence for name, _, sentence in page.check_all(many, str([f'"{name}"' for name in many])) if not name]
    check.equal(sentences, ["the browser loads 5489 lines and 10978 bytes of scripts; less than 5000 and 266240 are allowed"])
    wide = {"main.js": SPDX + "a" * page.MAX_BYTES}
    assert any(not name for name, _, _ in page.check_all(wide, '"main.js"'))


check.main(globals())
