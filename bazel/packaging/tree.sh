# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that build packages, with the rest of their arguments: TREE OUT. Makes a copy of the workspace's listed
# files and sets $work, $out, $version and SOURCE_DATE_EPOCH.
tree=$1 out=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/sonde-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
while IFS=$'\t' read -r name path; do
    mkdir -p "$work/tree/$(dirname "$name")"
    cp -L "$path" "$work/tree/$name"
    chmod u+w "$work/tree/$name"
done <"$tree"
version=$(sed -n 's/^#define SONDE_VERSION "\(.*\)"$/\1/p' "$work/tree/api/version.h")
day=$(sed -n "s/^## ${version//./\\.} - \([0-9-]*\)$/\1/p" "$work/tree/CHANGELOG.md")
[ -n "$version" ] && [ -n "$day" ] || { echo "CHANGELOG.md has no dated section for version $version" >&2; exit 1; }
SOURCE_DATE_EPOCH=$(date -u -d "$day" +%s)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022
