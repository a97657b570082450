#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A program must start with libsonde.so in every glibc from 2.17 on. So the library refers to no newer version of a name, to no
# internal name of libc by version, and has no section that an older dynamic linker cannot read.
set -uo pipefail
export LC_ALL=C
newest=2.17
failures=0

too_new() { # too_new SYMBOLS: prints the names whose version an old glibc lacks
    sed -n 's/.*[( ]\(GLIBC_[A-Za-z0-9_.]*\))\{0,1\} *\([A-Za-z0-9_@]*\)$/\1 \2/p' <<<"$1" | while read -r version name; do
        lower=$(printf '%s\n%s\n' "${version#GLIBC_}" "$newest" | sort -V | sed -n 1p)
        case $version in
        GLIBC_[0-9]*) [ "$lower" = "${version#GLIBC_}" ] && continue ;;
        esac
        echo "$name needs $version"
    done
}

check() { # check WHAT FOUND: FOUND is empty if all is well
    if [ -z "$2" ]; then
        echo "ok      $1"
    else
        echo "FAILED  $1"
        echo "$2"
        failures=$((failures + 1))
    fi
}

for library in service/guest/libsonde.so service/guest/libsonde.so.0; do
    symbols=$(objdump -T "$library")
    dynamic=$(readelf --dynamic --wide "$library")
    check "$library refers to names of libc" "$(grep -q 'GLIBC_2.*malloc' <<<"$symbols" || echo 'none found')"
    check "$library binds to nothing newer than glibc $newest (service/guest/libc.h says what to do)" "$(too_new "$symbols")"
    loose=$(awk '$NF == "dlsym" && $2 == "w" && !/GLIBC/' <<<"$symbols")
    check "$library refers to dlsym weakly and without a version" "$([ -n "$loose" ] || echo 'it does not')"
    check "$library has no packed relocations, which need glibc 2.36" "$(grep -w RELR <<<"$dynamic")"
    check "$library has a hash table" "$(grep -q -E 'GNU_HASH|\(HASH\)' <<<"$dynamic" || echo 'none found')"
done

# The test itself: it must see a name that is too new.
printf '#include <dlfcn.h>\nvoid *find(void);\nvoid *find(void) { return dlsym(0, "x"); }\n' |
    gcc -x c - -shared -fPIC -D_GNU_SOURCE -o "$TEST_TMPDIR/new.so"
found=$(too_new "$(objdump -T "$TEST_TMPDIR/new.so")")
check "a library with dlsym of glibc 2.34 is found out" "$([[ $found == *'dlsym needs GLIBC_2.34'* ]] || echo "it is not")"

[ "$failures" -eq 0 ]
