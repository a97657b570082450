/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/append.h"

#include <errno.h>
#include <string.h>

void append_text(char *buffer, size_t size, const char *text) {
    size_t used = strlen(buffer), more = strlen(text);
    if (more > size - 1 - used)
        more = size - 1 - used;
    memcpy(buffer + used, text, more);
    buffer[used + more] = 0;
}

void append_number(char *buffer, size_t size, uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    append_text(buffer, size, digits + at);
}

void append_errno(char *buffer, size_t size, int error) {
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {EPERM, "EPERM"},   {EACCES, "EACCES"}, {ENOSYS, "ENOSYS"}, {EINVAL, "EINVAL"},
        {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"}, {EAGAIN, "EAGAIN"}, {EBUSY, "EBUSY"},
        {ENOMEM, "ENOMEM"}, {E2BIG, "E2BIG"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) {
            append_text(buffer, size, names[i].name);
            return;
        }
    append_text(buffer, size, "error ");
    append_number(buffer, size, (uint64_t)error);
}
