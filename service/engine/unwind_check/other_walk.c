/* SPDX-License-Identifier: Apache-2.0
 *
 * libunwind reads memory, registers and unwind information through callbacks. Words of the stack
 * come from the copy, and everything else (code, .eh_frame_hdr, .eh_frame) from the modules'
 * files. */
#include "service/engine/unwind_check/other_walk.h"

#include "service/engine/unwind_check/row_text.h"

#include "api/elf/elf.h"
#include "service/engine/unwind_check/other_library.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RED_ZONE 128u
/* The encodings of .eh_frame_hdr that linkers write, which libunwind's search needs. */
#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

struct other_module {
    struct elf_file elf;
    bool is_open;
    uint64_t table; /* vaddr of the search table's header; 0 = none */
    uint32_t entries;
};

struct other_walker {
    const struct other_library *library;
    unw_addr_space_t space;
    const struct check_module *modules;
    struct other_module *opened;
    uint32_t count, last;
    /* Of the present walk. */
    const struct check_stack *stack;
    const uint8_t *bytes;
    bool is_short, is_in_red_zone, has_row;
};

/* --- files --- */

static bool read_vaddr(const struct other_module *module, uint64_t vaddr, void *to, size_t len) {
    uint64_t offset, left;
    return module->is_open && elf_offset_of(&module->elf, vaddr, &offset, &left) && left >= len &&
           elf_read(&module->elf.input, offset, to, len);
}

static void find_table(struct other_module *module) {
    uint8_t head[12];
    for (uint32_t i = 0; i < module->elf.segment_count; i++) {
        const Elf64_Phdr *segment = &module->elf.segments[i];
        if (segment->p_type != PT_GNU_EH_FRAME ||
            !read_vaddr(module, segment->p_vaddr, head, sizeof head))
            continue;
        bool is_usual = head[0] == 1 && (head[1] & 0x0f) == DW_EH_PE_sdata4 &&
                        head[2] == DW_EH_PE_udata4 && head[3] == TABLE_ENCODING;
        if (!is_usual)
            continue;
        memcpy(&module->entries, head + 8, 4);
        module->table = segment->p_vaddr;
    }
}

static void open_module(struct other_module *module, int fd) {
    struct elf_input input;
    module->is_open =
        elf_input_of_file(fd, &input) && elf_open(&input, &module->elf, NULL) == SONDE_OK;
    if (module->is_open)
        find_table(module);
}

static const struct check_module *module_at(struct other_walker *walker, uint64_t pc) {
    for (uint32_t i = 0; i < walker->count; i++) {
        uint32_t at = (walker->last + i) % walker->count;
        if (pc < walker->modules[at].start || pc >= walker->modules[at].end)
            continue;
        walker->last = at;
        return &walker->modules[at];
    }
    return NULL;
}

/* --- what libunwind asks --- */

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *found,
                          int need_info, void *context) {
    struct other_walker *walker = context;
    unw_dyn_info_t info = {0};
    const struct check_module *module = module_at(walker, ip);
    if (!module)
        return -UNW_ENOINFO;
    const struct other_module *opened = &walker->opened[module - walker->modules];
    if (!opened->table)
        return -UNW_ENOINFO;
    info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    info.start_ip = module->start;
    info.end_ip = module->end;
    info.u.rti.segbase = module->bias + opened->table;
    info.u.rti.table_data = info.u.rti.segbase + 12;
    info.u.rti.table_len = (unw_word_t)opened->entries * 8 / sizeof(unw_word_t);
    int result = walker->library->search_table(space, ip, &info, found, need_info, context);
    walker->has_row = result >= 0;
    return result;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *found, void *context) {
    (void)space, (void)found, (void)context;
}

static int get_dyn_info_list(unw_addr_space_t space, unw_word_t *list, void *context) {
    (void)space, (void)list, (void)context;
    return -UNW_ENOINFO;
}

static bool read_file(struct other_walker *walker, uint64_t address, unw_word_t *word) {
    for (uint32_t i = 0; i < walker->count; i++) {
        uint32_t at = (walker->last + i) % walker->count;
        uint64_t vaddr = address - walker->modules[at].bias;
        if (read_vaddr(&walker->opened[at], vaddr, word, sizeof *word))
            return true;
    }
    return false;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *word, int write,
                      void *context) {
    (void)space;
    struct other_walker *walker = context;
    uint64_t at = address - walker->stack->registers[UNWIND_REG_SP];
    if (write)
        return -UNW_EINVAL;
    if (walker->stack->stack_bytes >= 8 && at <= walker->stack->stack_bytes - 8) {
        memcpy(word, walker->bytes + at, sizeof *word);
        return 0;
    }
    if (read_file(walker, address, word))
        return 0;
    walker->is_short = true;
    walker->is_in_red_zone |= at + RED_ZONE < RED_ZONE;
    return -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *word, int write,
                      void *context) {
    (void)space;
    const struct other_walker *walker = context;
    if (write || number < 0 || number >= (int)UNWIND_REGISTERS)
        return -UNW_EBADREG;
    *word = walker->stack->registers[number]; /* both use DWARF numbers */
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
                        void *context) {
    (void)space, (void)number, (void)value, (void)write, (void)context;
    return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context) {
    (void)space, (void)cursor, (void)context;
    return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t ip, char *name, size_t size,
                         unw_word_t *offset, void *context) {
    (void)space, (void)ip, (void)name, (void)size, (void)offset, (void)context;
    return -UNW_ENOINFO;
}

static unw_accessors_t accessors = {find_proc_info, put_unwind_info, get_dyn_info_list,
                                    access_mem,     access_reg,      access_fpreg,
                                    resume,         get_proc_name};

/* --- walks --- */

struct other_walker *other_walker_create(const struct check_module *modules, uint32_t count) {
    struct other_walker *walker = calloc(1, sizeof *walker);
    if (!walker)
        return NULL;
    walker->library = other_library();
    walker->modules = modules;
    walker->opened = calloc(count + 1, sizeof *walker->opened);
    walker->space = walker->library->create_space(&accessors, 0);
    if (!walker->opened || !walker->space) {
        other_walker_destroy(walker);
        return NULL;
    }
    walker->count = count;
    for (uint32_t i = 0; i < count; i++)
        open_module(&walker->opened[i], CHECK_FIRST_FILE + (int)i);
    walker->library->set_caching_policy(walker->space, UNW_CACHE_GLOBAL);
    return walker;
}

void other_walker_destroy(struct other_walker *walker) {
    if (!walker)
        return;
    for (uint32_t i = 0; i < walker->count; i++)
        elf_finish(&walker->opened[i].elf);
    if (walker->space)
        walker->library->destroy_space(walker->space);
    free(walker->opened);
    free(walker);
}

static int step(struct other_walker *walker, unw_cursor_t *cursor) {
    walker->is_short = walker->is_in_red_zone = walker->has_row = false;
    return walker->library->step(cursor);
}

static enum check_end end_of(const struct other_walker *walker, int result) {
    if (walker->is_in_red_zone)
        return CHECK_RED_ZONE;
    if (walker->is_short)
        return CHECK_SHORT;
    return result == 0 ? CHECK_ROOT : CHECK_FAILED;
}

static bool begin(struct other_walker *walker, const struct check_stack *stack,
                  const uint8_t *bytes, unw_cursor_t *cursor) {
    walker->stack = stack;
    walker->bytes = bytes;
    return walker->library->init_remote(cursor, walker->space, walker) == 0;
}

uint32_t other_walk(struct other_walker *walker, const struct check_stack *stack,
                    const uint8_t *bytes, uint64_t *pcs, enum check_end *end) {
    unw_cursor_t cursor;
    unw_word_t pc;
    uint32_t count = 0;
    int result = 1;
    *end = CHECK_FAILED;
    if (!begin(walker, stack, bytes, &cursor))
        return 0;
    while (walker->library->get_reg(&cursor, UNW_REG_IP, &pc) == 0 && pc != 0) {
        if (count == CHECK_MAX_FRAMES) {
            *end = CHECK_DEPTH;
            return count;
        }
        pcs[count++] = pc;
        result = step(walker, &cursor);
        if (result <= 0)
            break;
    }
    *end = end_of(walker, result > 0 ? 0 : result);
    return count;
}

/* What functions save for their callers, by DWARF's numbers of x86-64. */
static const struct {
    unw_regnum_t number;
    const char *name;
} saved[] = {{6, "rbp"}, {3, "rbx"}, {12, "r12"}, {13, "r13"}, {14, "r14"}, {15, "r15"}};
#define SAVED (sizeof saved / sizeof *saved)

static uint64_t place_of(struct other_walker *walker, unw_cursor_t *cursor, unw_regnum_t number) {
    unw_save_loc_t place;
    return walker->library->get_save_loc(cursor, number, &place) == 0 &&
                   place.type == UNW_SLT_MEMORY
               ? place.u.addr
               : 0;
}

/* The row as far as its effects show it. libunwind has DWARF's numbers. */
static void put_row(struct other_walker *walker, struct row_text *text, unw_cursor_t *before,
                    unw_cursor_t *after) {
    unw_word_t sp = 0, bp = 0, cfa = 0;
    walker->library->get_reg(before, UNWIND_REG_SP, &sp);
    walker->library->get_reg(before, UNWIND_REG_FP, &bp);
    walker->library->get_reg(after, UNWIND_REG_SP, &cfa);
    row_text_put(text, "CFA=rsp+%lld", (long long)(cfa - sp));
    if (bp >= sp && bp < cfa)
        row_text_put(text, "=rbp+%lld", (long long)(cfa - bp));
    for (size_t i = 0; i < SAVED; i++) {
        uint64_t was = place_of(walker, before, saved[i].number),
                 is = place_of(walker, after, saved[i].number);
        if (is && is != was)
            row_text_put(text, " %s=c%+lld", saved[i].name, (long long)(is - cfa));
    }
}

void other_walk_row(struct other_walker *walker, const struct check_stack *stack,
                    const uint8_t *bytes, uint32_t at, char row[CHECK_ROW_BYTES]) {
    unw_cursor_t cursor, before;
    struct row_text text = {row, CHECK_ROW_BYTES};
    int result = 1;
    row[0] = 0;
    if (!begin(walker, stack, bytes, &cursor))
        return;
    for (uint32_t i = 0; i < at && result > 0; i++)
        result = step(walker, &cursor);
    walker->library->flush_cache(walker->space, 0, 0); /* so that find_proc_info is asked again */
    before = cursor;
    if (result > 0)
        result = step(walker, &cursor);
    if (!walker->has_row)
        row_text_put(&text, "no row%s", result > 0 ? ", by frame pointer: " : "");
    if (result > 0)
        put_row(walker, &text, &before, &cursor);
    else if (walker->is_short)
        row_text_put(&text, "%sneeds a word that is not in the copy", walker->has_row ? "" : "; ");
    else if (result < 0)
        row_text_put(&text, "%s%s", walker->has_row ? "" : ": ", walker->library->strerror(result));
}
