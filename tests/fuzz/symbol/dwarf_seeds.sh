#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: dwarf_seeds.sh SOURCE OUT...: inputs for dwarf_fuzz, one per way to compile SOURCE.
set -euo pipefail
source=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$source" "$dir/seed.cc"
cd "$dir"
out=("${@/#/$OLDPWD/}")

# section NUMBER NAME FILE: one section of the list; nothing if the file does not have it.
section() {
    rm -f part
    objcopy -O binary --only-section="$2" --set-section-flags "$2=alloc" "$3" part 2>/dev/null || return 0
    [ -s part ] || return 0
    local len
    len=$(stat -c %s part)
    printf "\\x$(printf %02x "$1")\\x$(printf %02x $((len & 255)))\\x$(printf %02x $((len >> 8 & 255)))"
    cat part
}

# sections FIRST FILE SUFFIX
sections() {
    local number=$1 name
    for name in info abbrev str line line_str str_offsets addr ranges rnglists; do
        section "$number" ".debug_$name$3" "$2"
        number=$((number + 1))
    done
    [ -z "$3" ] || section "$number" .debug_cu_index "$2"
}

build() {
    "$1" -shared -nostdlib -fPIC -ffreestanding -O2 -g -freorder-blocks-and-partition "${@:2}" \
        -Wl,-z,undefs seed.cc -o seed.so 2>/dev/null ||
        "$1" -shared -nostdlib -fPIC -ffreestanding -O2 -g "${@:2}" -Wl,-z,undefs seed.cc -o seed.so
}

plain() {
    build "${@:2}"
    sections 0 seed.so "" >"$1"
}

# One file split away, packed into a package by a tool that knows the version.
split() {
    rm -f ./*.dwo
    build "${@:3}" -gsplit-dwarf
    timeout 20 "$2" -o seed.dwp ./*.dwo
    { sections 0 seed.so "" && sections 32 seed.dwp .dwo; } >"$1"
}

# What two files share, in a third.
shared() {
    build "${@:2}"
    cp seed.so left
    cp seed.so right
    printf x >>right
    dwz -m common left right
    { sections 0 left "" && sections 16 common ""; } >"$1"
}

plain "${out[0]}" g++ -gdwarf-5
plain "${out[1]}" g++ -gdwarf-4
plain "${out[2]}" g++ -gdwarf-2 -gstrict-dwarf
split "${out[3]}" llvm-dwp clang++ -gdwarf-5
split "${out[4]}" dwp g++ -gdwarf-4
shared "${out[5]}" g++ -gdwarf-4
plain "${out[6]}" g++ -gdwarf-5 -flto
