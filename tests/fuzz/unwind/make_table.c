/* SPDX-License-Identifier: Apache-2.0
 *
 * make_table FILE OUT: writes the table of an ELF file, which is a seed. */
#include "service/unwind/table/table_build.h"

#include <fcntl.h>
#include <stdio.h>

int main(int argc, char **argv) {
    struct sonde_buf table = {0};
    struct sonde_diag diag = {0};
    if (argc != 3 || unwind_table_build(open(argv[1], O_RDONLY | O_CLOEXEC), &table, &diag))
        return fprintf(stderr, "%s\n", diag.text), 1;
    FILE *out = fopen(argv[2], "wb");
    if (!out || fwrite(table.data, 1, table.len, out) != table.len || fclose(out) != 0)
        return 1;
    sonde_buf_finish(&table);
    return 0;
}
