/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass visits the objects under the dynamic linker's lock, so none is unloaded meanwhile. But an
 * object may be listed before it is fully relocated, and making its RELRO pages read-only while the
 * linker still writes to them would crash the process. So a pass first notes the list's length and
 * then calls dladdr, which waits for the lock that dlopen holds to its end: objects listed before
 * are complete now. New objects are appended to the list, so the pass leaves out as many objects at
 * the end as were added since; the next pass includes them. */
#include "service/guest/heap/got_patch.h"

#include "service/guest/heap/malloc_wrappers.h"
#include "service/guest/libc.h"
#include "service/machine/own.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_NAMES 64u
#define MAX_LATE  64u /* objects loaded while a pass begins */
#define MAX_TRIES 20  /* passes that had more */
#define PAGE      4096ull

/* What a pass needs of one loaded object. */
struct object {
    uint64_t base, text_low, text_high; /* of all segments */
    const ElfW(Phdr) * headers;
    uint32_t header_count;
    uint64_t relro_low, relro_high; /* whole pages */
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash;         /* DT_GNU_HASH */
    const ElfW(Rela) * tables[2]; /* PLT relocations, other relocations */
    size_t counts[2];
    uint64_t open_page; /* made writable, to be protected again; 0 = none */
    uint32_t operators; /* imports of operator new, which calls malloc in the C++ library */
};

struct pass {
    bool install;
    uint32_t objects_seen;
    unsigned long long adds; /* loads so far, when the pass began */
    /* A ring of the last objects visited, as many as were loaded since. */
    struct dl_phdr_info late[MAX_LATE];
    uint32_t late_count, late_at, visited;
};

static struct got_patch_info result;
static bool is_found;
static uint64_t real[MAX_NAMES];         /* the function that each wrapper replaces; 0 = none */
static uint64_t allocator_low, libc_low; /* text_low of these objects */
static uint64_t allocator_high;
static unsigned long long last_adds, last_subs;

/* ---- One word ---- */

static bool is_protected(const struct object *object, uint64_t address) {
    uint64_t page = address & ~(PAGE - 1);
    return page >= object->relro_low && page < object->relro_high;
}

static void close_page(struct object *object) {
    if (object->open_page)
        (void)mprotect((void *)object->open_page, PAGE, PROT_READ);
    object->open_page = 0;
}

static bool open_page(struct object *object, uint64_t address) {
    uint64_t page = address & ~(PAGE - 1);
    if (!is_protected(object, address) || object->open_page == page)
        return true;
    close_page(object);
    if (mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) != 0) {
        result.os_error = result.os_error ? result.os_error : errno;
        return false;
    }
    object->open_page = page;
    return true;
}

static bool is_writable(const struct object *object, uint64_t address) {
    for (uint32_t i = 0; i < object->header_count; i++) {
        const ElfW(Phdr) *header = &object->headers[i];
        uint64_t start = object->base + header->p_vaddr;
        if (header->p_type == PT_LOAD && address >= start &&
            address + sizeof(uint64_t) <= start + header->p_memsz)
            return (header->p_flags & PF_W) != 0;
    }
    return false;
}

/* Whether the word may be changed: it holds the real function, or the stub of its own object that
 * binds it at the first call. */
static bool is_patchable(const struct object *object, uint64_t value, uint64_t function,
                         uint32_t type) {
    bool is_unbound = type == machine_own_relocations->jump_slot && value >= object->text_low &&
                      value < object->text_high;
    return value == function || is_unbound;
}

static bool change(struct object *object, const ElfW(Rela) * entry, size_t which, bool install) {
    uint64_t wrapper = (uint64_t)malloc_wrappers[which].wrapper,
             address = object->base + entry->r_offset;
    if (address % sizeof(uint64_t) != 0 || !is_writable(object, address))
        return false;
    _Atomic uint64_t *word = (_Atomic uint64_t *)address;
    uint64_t value = atomic_load(word), wanted = install ? wrapper : real[which];
    if (value == wanted)
        return install;
    if (install ? !is_patchable(object, value, real[which], ELF64_R_TYPE(entry->r_info))
                : value != wrapper)
        return false;
    if (!open_page(object, address))
        return false;
    return atomic_compare_exchange_strong(word, &value, wanted);
}

/* ---- One object ---- */

/* The first letters of the wrapped names: rejects most symbols quickly. */
static bool may_be_wrapped(const char *name) {
    return strchr("_acdfmprsv", name[0]) != NULL && name[0];
}

/* Index of the wrapper for that name, MAX_NAMES = none. */
static size_t find_name(const char *name) {
    for (size_t i = 0; may_be_wrapped(name) && i < malloc_wrapper_count; i++)
        if (real[i] && strcmp(malloc_wrappers[i].name, name) == 0)
            return i;
    return MAX_NAMES;
}

static bool is_operator_new(const ElfW(Sym) * symbol, const char *name) {
    return symbol->st_shndx == SHN_UNDEF && name[0] == '_' &&
           (strncmp(name, "_Znw", 4) == 0 || strncmp(name, "_Zna", 4) == 0);
}

static uint32_t change_all(struct object *object, bool install) {
    const struct machine_relocations *types = machine_own_relocations;
    uint32_t words = 0;
    for (uint32_t table = 0; table < 2; table++)
        for (size_t i = 0; i < object->counts[table]; i++) {
            const ElfW(Rela) *entry = &object->tables[table][i];
            uint64_t type = ELF64_R_TYPE(entry->r_info);
            if (type != types->jump_slot && type != types->glob_dat &&
                (type != types->absolute || entry->r_addend != 0))
                continue;
            const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
            const char *name = object->names + symbol->st_name;
            size_t which = find_name(name);
            if (which != MAX_NAMES)
                words += change(object, entry, which, install);
            else
                object->operators += is_operator_new(symbol, name);
        }
    close_page(object);
    return words;
}

/* The linker turns these values into addresses, except in the vDSO, which keeps offsets. */
static const void *address_of(const struct object *object, uint64_t value) {
    return (const void *)(value < object->base ? object->base + value : value);
}

static void read_dynamic(struct object *object, const ElfW(Dyn) * dynamic) {
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uint64_t value = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_SYMTAB)
            object->symbols = address_of(object, value);
        else if (dynamic->d_tag == DT_STRTAB)
            object->names = address_of(object, value);
        else if (dynamic->d_tag == DT_GNU_HASH)
            object->hash = address_of(object, value);
        else if (dynamic->d_tag == DT_JMPREL)
            object->tables[0] = address_of(object, value);
        else if (dynamic->d_tag == DT_PLTRELSZ)
            object->counts[0] = value / sizeof(ElfW(Rela));
        else if (dynamic->d_tag == DT_RELA)
            object->tables[1] = address_of(object, value);
        else if (dynamic->d_tag == DT_RELASZ)
            object->counts[1] = value / sizeof(ElfW(Rela));
    }
}

static bool read_object(const struct dl_phdr_info *info, struct object *object) {
    const ElfW(Dyn) *dynamic = NULL;
    *object = (struct object){.base = info->dlpi_addr,
                              .text_low = UINT64_MAX,
                              .headers = info->dlpi_phdr,
                              .header_count = info->dlpi_phnum};
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
        if (header->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)start;
        if (header->p_type == PT_GNU_RELRO) {
            object->relro_low = start & ~(PAGE - 1);
            object->relro_high = end & ~(PAGE - 1);
        }
        if (header->p_type == PT_LOAD) {
            object->text_low = start < object->text_low ? start : object->text_low;
            object->text_high = end > object->text_high ? end : object->text_high;
        }
    }
    if (dynamic)
        read_dynamic(object, dynamic);
    return object->symbols && object->names;
}

static bool has(const struct object *object, const void *address) {
    return (uint64_t)address >= object->text_low && (uint64_t)address < object->text_high;
}

/* This library, and the allocator's own calls. libc is patched even when it is the allocator, since
 * its other parts call malloc, too. */
static bool is_left_alone(const struct object *object) {
    return has(object, malloc_wrappers) ||
           (allocator_low != libc_low && object->text_low == allocator_low);
}

/* ---- Finding malloc ---- */

static uint32_t hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* Returns the address of a function that the object itself defines; 0 = it does not define one.
 * dlsym would return the canonical address instead, which in a program that is not
 * position-independent is the program's PLT entry. */
static uint64_t find_function(const struct object *object, const char *name) {
    const uint32_t *table = object->hash;
    uint32_t hash = hash_of(name);
    if (!table || table[0] == 0)
        return 0;
    const uint32_t *buckets = table + 4 + 2 * table[2], *chains = buckets + table[0];
    uint32_t at = buckets[hash % table[0]];
    for (; at >= table[1]; at++) {
        const ElfW(Sym) *symbol = &object->symbols[at];
        if ((chains[at - table[1]] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
            strcmp(object->names + symbol->st_name, name) == 0)
            return object->base + symbol->st_value;
        if (chains[at - table[1]] & 1)
            break;
    }
    return 0;
}

static void name_allocator(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strnlen(name, sizeof result.allocator - 1);
    memcpy(result.allocator, name, len);
    result.allocator[len] = 0;
}

/* Notes the functions of the allocator that wrappers replace. Wrappers that only call other
 * wrappers may replace a function of any of the searched objects. */
static void find_real(const struct object *object) {
    for (size_t i = 0; i < malloc_wrapper_count && i < MAX_NAMES; i++) {
        bool is_own = malloc_wrappers[i].real == NULL;
        uint64_t address = real[i] ? 0 : find_function(object, malloc_wrappers[i].name);
        if (!address || (object->text_low != allocator_low && !is_own))
            continue;
        real[i] = address;
        if (malloc_wrappers[i].real)
            *malloc_wrappers[i].real = (malloc_function *)address;
    }
}

/* Imports are bound to the first object in the list that defines malloc. */
static int on_search(struct dl_phdr_info *info, size_t size, void *context) {
    struct object object;
    uint32_t *seen = context;
    bool is_program = (*seen)++ == 0;
    if (!read_object(info, &object) || has(&object, malloc_wrappers))
        return 0;
    if (!allocator_low && find_function(&object, "malloc")) {
        allocator_low = object.text_low;
        allocator_high = object.text_high;
        name_allocator(info->dlpi_name);
        result.refusal = is_program ? GOT_PATCH_IN_PROGRAM : GOT_PATCH_POSSIBLE;
    }
    if (!libc_low && find_function(&object, "gnu_get_libc_version"))
        libc_low = object.text_low;
    if (object.text_low == allocator_low || object.text_low == libc_low)
        find_real(&object);
    return 0;
}

const struct got_patch_info *got_patch_find(void) {
    uint32_t seen = 0;
    if (is_found)
        return &result;
    is_found = true;
    result.refusal = GOT_PATCH_NO_MALLOC;
    dl_iterate_phdr(on_search, &seen);
    return &result;
}

bool got_patch_defines_malloc(const void *function) {
    uint64_t address = (uint64_t)function;
    (void)got_patch_find();
    return address >= allocator_low && address < allocator_high;
}

/* ---- A pass ---- */

static int note_adds(struct dl_phdr_info *info, size_t size, void *context) {
    struct pass *pass = context;
    pass->adds = info->dlpi_adds;
    return 1;
}

/* Waits for each dlopen that is under way at the call. */
static void wait_for_loads(void) {
    Dl_info info;
    const struct libc_functions *libc = libc_functions();
    if (libc)
        (void)libc->dladdr(malloc_wrappers, &info);
}

static void patch_object(struct pass *pass, const struct dl_phdr_info *info) {
    struct object object;
    bool is_program = pass->objects_seen++ == 0;
    if (!read_object(info, &object) || is_left_alone(&object))
        return;
    uint32_t words = change_all(&object, pass->install);
    result.words += words;
    result.objects += words > 0;
    if (is_program)
        result.program_imports = words + object.operators;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
    struct pass *pass = context;
    unsigned long long late = info->dlpi_adds - pass->adds;
    last_adds = info->dlpi_adds;
    last_subs = info->dlpi_subs;
    pass->late_count = late < MAX_LATE ? (uint32_t)late : MAX_LATE;
    if (late >= MAX_LATE)
        return 1;
    if (late == 0) {
        patch_object(pass, info);
        return 0;
    }
    struct dl_phdr_info *oldest = &pass->late[pass->late_at];
    if (pass->visited++ >= late)
        patch_object(pass, oldest);
    *oldest = *info;
    pass->late_at = (pass->late_at + 1) % (uint32_t)late;
    return 0;
}

/* Sets late_count to MAX_LATE when more objects were loaded meanwhile than fit in the ring. */
static void try_pass(struct pass *pass) {
    dl_iterate_phdr(note_adds, pass);
    wait_for_loads();
    dl_iterate_phdr(visit, pass);
}

bool got_patch_apply(bool install) {
    struct pass pass = {.late_count = MAX_LATE};
    if (got_patch_find()->refusal != GOT_PATCH_POSSIBLE)
        return true;
    result.words = result.objects = result.program_imports = 0;
    result.os_error = 0;
    for (int i = 0; i < MAX_TRIES && pass.late_count == MAX_LATE; i++) {
        pass = (struct pass){.install = install};
        try_pass(&pass);
    }
    return pass.late_count == 0;
}

static int compare_counts(struct dl_phdr_info *info, size_t size, void *context) {
    *(bool *)context = info->dlpi_adds != last_adds || info->dlpi_subs != last_subs;
    return 1;
}

bool got_patch_is_stale(void) {
    bool is_stale = false;
    dl_iterate_phdr(compare_counts, &is_stale);
    return is_stale;
}
