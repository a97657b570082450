/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's names, from /proc/kallsyms. Its own code stays, but modules and BPF programs are
 * loaded and unloaded, also at the address of another one. So kallsyms is read again for addresses
 * outside of the kernel's own code. A look takes tens of milliseconds of CPU time, so it is not
 * repeated for PATIENCE times as long, and a text that has not changed is not parsed again. */
#include "api/base/clock.h"
#include "service/process/process_file.h"
#include "service/symbol/jit/jit_names.h"

#include <unistd.h>

#define KALLSYMS_LIMIT ((size_t)64 << 20)
#define PATIENCE       10
#define PAUSE_MS       1000  /* between two looks, at least */
#define HIDDEN_MS      60000 /* while the kernel hides its addresses */

static bool read_kallsyms(struct sonde_buf *text) {
    int fd = process_file_open(PROCESS_KALLSYMS, 0, 0, 0);
    text->limit = KALLSYMS_LIMIT;
    ssize_t got = fd >= 0 ? 1 : -1;
    while (got > 0 && !text->failed) {
        char piece[65536];
        got = read(fd, piece, sizeof piece);
        if (got > 0)
            sonde_buf_append(text, piece, (size_t)got);
    }
    if (fd >= 0)
        close(fd);
    return got == 0 && text->len > 0 && !text->failed;
}

static bool is_core(const struct symbol_jit *jit, uint64_t address) {
    return address >= jit->core.first && address <= jit->core.last;
}

/* Replaces the names. False if the kernel hides its addresses. */
static bool replace(struct symbol_module *module, const struct sonde_buf *text) {
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    struct symbol_core core;
    bool is_shown = symbol_kallsyms_parse(text->data, text->len, &collection, &core);
    struct symbol_jit *fresh = is_shown ? symbol_jit_build(&collection) : NULL;
    symbol_collection_finish(&collection);
    if (!fresh)
        return is_shown;
    fresh->core = core;
    symbol_jit_release(module->jit);
    module->jit = fresh;
    return true;
}

/* Names that were read before the kernel began to hide them stay. */
static void look(struct symbol_module *module) {
    struct symbol_kernel_looks *looks = &module->looks;
    struct sonde_buf text = {0};
    bool is_shown = false;
    if (read_kallsyms(&text)) {
        uint32_t hash = hash_index_data(&looks->seed, text.data, text.len);
        is_shown = (module->jit && hash == looks->hash) || replace(module, &text);
        looks->hash = hash;
    }
    module->reason = is_shown || module->jit ? SYMBOL_REASON_NONE : SYMBOL_REASON_KERNEL_HIDDEN;
    sonde_buf_finish(&text);
}

void symbol_kernel_read(struct symbol_module *module, uint64_t address) {
    struct symbol_kernel_looks *looks = &module->looks;
    if (module->jit && (address == 0 || is_core(module->jit, address)))
        return;
    if (looks->next_ms > clock_ms(CLOCK_MONOTONIC))
        return;
    if (looks->next_ms == 0)
        hash_index_init(&looks->seed);
    int64_t before_ms = clock_ms(CLOCK_THREAD_CPUTIME_ID);
    look(module);
    int64_t pause_ms = PATIENCE * (clock_ms(CLOCK_THREAD_CPUTIME_ID) - before_ms);
    if (pause_ms < PAUSE_MS)
        pause_ms = PAUSE_MS;
    looks->next_ms = clock_ms(CLOCK_MONOTONIC) + (module->jit ? pause_ms : HIDDEN_MS);
}
