#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# only_own_libraries.sh PREFIX: fails if a program below PREFIX, or a library that it finds there, uses a library of the system that
# is not glibc's, or a version of glibc after 2.34.
set -uo pipefail
prefix=$(realpath "$1") failed=0
glibc='(libc|libm|libresolv|libpthread|libdl|librt)\.so\.[0-9]+'
for program in "$prefix"/bin/*; do
    # ld.so prints "NAME => PATH (ADDRESS)"; a path with spaces is possible.
    while read -r name path; do
        case $path in
        "$prefix"/bin/../lib/sonde/* | "$prefix"/lib/sonde/*) ;;
        *) [[ $name =~ ^$glibc$ ]] || { echo "${program##*/}: $name is $path"; failed=1; } ;;
        esac
    done < <(env -i /usr/bin/ldd "$program" | sed -n 's/^\s*\(\S*\) => \(.*\)/\1 \2/p' | sed 's/ (0x[0-9a-f]*)$//')
done
for file in "$prefix"/bin/* "$prefix"/lib/sonde/*; do
    newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
    [ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -1)" = GLIBC_2.34 ] || { echo "${file##*/} needs $newest"; failed=1; }
done
exit $failed
