/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/sample_table.h"

#include "service/guest/process/address_space.h"
#include "service/guest/process/fds.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define BUCKET       8u
#define NUMBER_BITS  20 /* of an entry; the rest of a slot holds the address without its low 3 */
#define NUMBER_MASK  ((1ull << NUMBER_BITS) - 1)
#define FILTER_STUCK 255u

_Static_assert(ALLOC_ENTRIES == 1u << NUMBER_BITS, "an entry's number fits into a slot");

_Alignas(4096) _Atomic uint8_t sample_table_filter[SAMPLE_TABLE_FILTER];

static struct fds_file memory = {.fd = -1};
static struct alloc_header *header;
static struct alloc_entry *entries;
static _Atomic uint32_t *stack_slots;
static uint8_t *stacks;
static _Atomic uint64_t *index_slots; /* the front, then the back */
static _Atomic bool back_is_used;     /* since the index was empty */

/* How much of the table and the index is mapped: everything, divided by 1 << shift. The memfd and
 * its layout are always the same. sonded reads zeros where the guest has mapped nothing. */
static uint32_t shift;
/* Head of the list of free entries, which are linked through `stack`. The number is in the low
 * bits; a tag above it changes with each operation, against ABA. */
static _Atomic uint64_t free_entries;

/* ---- Memory ---- */

static uint32_t entry_count(void) {
    return ALLOC_ENTRIES >> shift;
}

static uint32_t stack_slot_count(void) {
    return ALLOC_STACK_SLOTS >> shift;
}

static uint32_t back_slots(void) {
    return SAMPLE_TABLE_BACK >> shift;
}

static size_t index_bytes(void) {
    return (SAMPLE_TABLE_FRONT + back_slots()) * sizeof(_Atomic uint64_t);
}

static size_t entries_bytes(void) { /* with the header before them */
    return ALLOC_ENTRIES_AT + entry_count() * sizeof(struct alloc_entry);
}

static size_t stack_slots_bytes(void) {
    return stack_slot_count() * sizeof *stack_slots;
}

static size_t stacks_bytes(void) {
    return ALLOC_STACK_BYTES >> shift;
}

/* Maps and unwind tables of the walks need as much again as the table. */
static bool is_size_allowed(void) {
    uint64_t shared = entries_bytes() + stack_slots_bytes() + stacks_bytes();
    return address_space_allows(ADDRESS_SPACE_PRIVATE, 2 * index_bytes()) &&
           address_space_allows(ADDRESS_SPACE_SHARED, 2 * (index_bytes() + shared));
}

/* Halves the table until the program's limits allow it. */
static int choose_size(void) {
    for (shift = 0; !is_size_allowed(); shift++)
        if (shift == SAMPLE_TABLE_MAX_SHIFT)
            return ENOMEM;
    address_space_forget();
    return 0;
}

static void write_header(void) {
    header->version = 1;
    header->flags = ALLOC_HAS_PLACES;
    atomic_store(&header->entries_used, 1);
    atomic_store(&header->stack_used, 8); /* offset 0 means none */
    header->magic = ALLOC_MAGIC;
}

static int make_index(void) {
    void *place = mmap(NULL, index_bytes(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return ENOMEM;
    index_slots = place;
    if (madvise(place, index_bytes(), MADV_WIPEONFORK) != 0 ||
        madvise((void *)sample_table_filter, sizeof sample_table_filter, MADV_WIPEONFORK) != 0)
        return errno;
    return 0;
}

/* Maps a part of the memfd. The child of a fork does not get it. NULL = failed, see errno. */
static void *map_part(uint64_t at, size_t bytes) {
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, (off_t)at);
    if (place == MAP_FAILED)
        return NULL;
    madvise(place, bytes, MADV_DONTFORK);
    return place;
}

static bool map_parts(void) {
    header = map_part(0, entries_bytes());
    stack_slots = map_part(ALLOC_SLOTS_AT, stack_slots_bytes());
    stacks = map_part(ALLOC_STACKS_AT, stacks_bytes());
    entries = header ? (struct alloc_entry *)((uint8_t *)header + ALLOC_ENTRIES_AT) : NULL;
    return header && stack_slots && stacks;
}

static void unmap(void *part, size_t bytes) {
    if (part)
        munmap(part, bytes);
}

/* The seals fix the size and allow sonded only to read. */
static int make_shared(void) {
    int fd = raw_memfd("sonde-allocs");
    if (fd < 0)
        return -fd;
    memory = fds_keep(fd);
    if (ftruncate(memory.fd, (off_t)ALLOC_BYTES) != 0)
        return errno;
    if (!map_parts())
        return errno;
    write_header();
    if (fcntl(memory.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return errno;
    (void)fcntl(memory.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); /* Linux 5.1 */
    return 0;
}

static void free_memory(void) {
    unmap(header, entries_bytes());
    unmap((void *)stack_slots, stack_slots_bytes());
    unmap(stacks, stacks_bytes());
    unmap((void *)index_slots, index_bytes());
    sample_table_after_fork();
}

int sample_table_open(void) {
    if (header)
        return 0;
    int error = choose_size();
    if (!error)
        error = make_index();
    if (!error)
        error = make_shared();
    if (error)
        free_memory();
    return error;
}

bool sample_table_is_open(void) {
    return header != NULL;
}

int sample_table_fd(void) {
    return fds_ours(&memory) ? memory.fd : -1;
}

void sample_table_empty(void) {
    if (!header)
        return;
    madvise(header, entries_bytes(), MADV_REMOVE);
    madvise((void *)stack_slots, stack_slots_bytes(), MADV_REMOVE);
    madvise(stacks, stacks_bytes(), MADV_REMOVE);
    madvise((void *)index_slots, index_bytes(), MADV_DONTNEED);
    memset((void *)sample_table_filter, 0, sizeof sample_table_filter);
    atomic_store(&back_is_used, false);
    atomic_store(&free_entries, 0);
    write_header();
}

void sample_table_close(void) {
    sample_table_empty();
    free_memory();
}

void sample_table_after_fork(void) {
    header = NULL;
    stack_slots = NULL;
    stacks = NULL;
    index_slots = NULL;
    fds_close(&memory);
    atomic_store(&back_is_used, false);
    atomic_store(&free_entries, 0);
}

void sample_table_drop(enum alloc_drop cause) {
    atomic_fetch_add_explicit(&header->drops[cause], 1, memory_order_relaxed);
}

/* ---- Entries ---- */

static uint32_t take_entry(void) {
    uint64_t head = atomic_load_explicit(&free_entries, memory_order_acquire);
    while (head & NUMBER_MASK) {
        const struct alloc_entry *first = &entries[head & NUMBER_MASK];
        uint32_t after = __atomic_load_n(&first->stack, __ATOMIC_RELAXED);
        uint64_t next = ((head >> NUMBER_BITS) + 1) << NUMBER_BITS | (after & NUMBER_MASK);
        if (atomic_compare_exchange_weak(&free_entries, &head, next))
            return (uint32_t)(head & NUMBER_MASK);
    }
    uint32_t used = atomic_load(&header->entries_used);
    while (used < entry_count())
        if (atomic_compare_exchange_weak(&header->entries_used, &used, used + 1))
            return used;
    return 0;
}

static void free_entry(uint32_t number) {
    uint64_t head = atomic_load_explicit(&free_entries, memory_order_relaxed), next;
    do {
        __atomic_store_n(&entries[number].stack, (uint32_t)(head & NUMBER_MASK), __ATOMIC_RELAXED);
        next = ((head >> NUMBER_BITS) + 1) << NUMBER_BITS | number;
    } while (!atomic_compare_exchange_weak(&free_entries, &head, next));
}

/* sample NULL: the block is gone. */
static void write_entry(uint32_t number, uint64_t address, const struct sample *sample) {
    struct alloc_entry *entry = &entries[number];
    uint64_t version = atomic_load_explicit(&entry->version, memory_order_relaxed);
    atomic_store_explicit(&entry->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->address, address, memory_order_relaxed);
    if (sample) {
        entry->size = sample->size;
        entry->objects = sample->objects;
        entry->time_ns = sample->time_ns;
        __atomic_store_n(&entry->stack, sample->stack, __ATOMIC_RELAXED);
        entry->tid = sample->tid;
    }
    atomic_store_explicit(&entry->version, version + 2, memory_order_release);
}

static void read_entry(uint32_t number, struct sample *sample) {
    const struct alloc_entry *entry = &entries[number];
    *sample =
        (struct sample){entry->size, entry->objects, entry->time_ns, entry->stack, entry->tid};
}

/* ---- The index ---- */

static void filter_change(const void *block, int change) {
    _Atomic uint8_t *byte = &sample_table_filter[sample_table_filter_index(block)];
    uint8_t count = atomic_load_explicit(byte, memory_order_relaxed);
    while (count != FILTER_STUCK &&
           !atomic_compare_exchange_weak(byte, &count, (uint8_t)(count + change)))
        continue;
}

/* which: 0 and 1 are in the front, 2 and 3 in the back. */
static _Atomic uint64_t *bucket_of(uint64_t key, uint32_t which) {
    static const uint64_t factors[] = {0x9e3779b97f4a7c15ull, 0xc2b2ae3d27d4eb4full};
    uint64_t hash = key * factors[which % 2] >> 40;
    uint32_t back_buckets = back_slots() / BUCKET; /* a power of two */
    return which < 2 ? &index_slots[hash % (SAMPLE_TABLE_FRONT / BUCKET) * BUCKET]
                     : &index_slots[SAMPLE_TABLE_FRONT + (hash & (back_buckets - 1)) * BUCKET];
}

static uint64_t key_of(const void *block) {
    return (uint64_t)block >> 3;
}

static uint32_t free_slots(const _Atomic uint64_t *bucket) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < BUCKET; i++)
        count += atomic_load_explicit(&bucket[i], memory_order_relaxed) == 0;
    return count;
}

/* False when the bucket is full. */
static bool put_slot(_Atomic uint64_t *bucket, uint64_t slot) {
    for (uint32_t i = 0; i < BUCKET; i++) {
        uint64_t none = 0;
        if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&bucket[i], &none, slot))
            return true;
    }
    return false;
}

static bool put_in_either(uint64_t key, uint32_t which, uint64_t slot) {
    _Atomic uint64_t *one = bucket_of(key, which), *other = bucket_of(key, which + 1);
    if (free_slots(other) > free_slots(one))
        return put_slot(other, slot) || put_slot(one, slot);
    return put_slot(one, slot) || put_slot(other, slot);
}

static bool put_in_index(uint64_t key, uint32_t number) {
    uint64_t slot = key << NUMBER_BITS | number;
    if (put_in_either(key, 0, slot))
        return true;
    atomic_store(&back_is_used, true); /* before the block can be searched for */
    return put_in_either(key, 2, slot);
}

/* Returns the entry's number, 0 = not found. */
static uint32_t take_from_index(uint64_t key) {
    uint32_t count = atomic_load_explicit(&back_is_used, memory_order_relaxed) ? 4 : 2;
    for (uint32_t which = 0; which < count; which++) {
        _Atomic uint64_t *bucket = bucket_of(key, which);
        for (uint32_t i = 0; i < BUCKET; i++) {
            uint64_t slot = atomic_load_explicit(&bucket[i], memory_order_relaxed);
            if (slot >> NUMBER_BITS == key && slot != 0 &&
                atomic_compare_exchange_strong(&bucket[i], &slot, 0))
                return (uint32_t)(slot & NUMBER_MASK);
        }
    }
    return 0;
}

/* ---- Live blocks ---- */

bool sample_table_take(const void *block, struct sample *sample) {
    uint32_t number = index_slots ? take_from_index(key_of(block)) : 0;
    if (!number)
        return false;
    read_entry(number, sample);
    write_entry(number, 0, NULL);
    free_entry(number);
    filter_change(block, -1);
    return true;
}

/* A block that is already in the index was freed without being noticed. */
void sample_table_put(const void *block, const struct sample *sample) {
    struct sample stale;
    while (sample_table_may_hold(block) && sample_table_take(block, &stale))
        continue;
    uint32_t number = (uint64_t)block % 8 == 0 ? take_entry() : 0;
    if (!number) {
        sample_table_drop(ALLOC_DROP_LIVE);
        return;
    }
    filter_change(block, 1);
    write_entry(number, (uint64_t)block, sample);
    if (put_in_index(key_of(block), number))
        return;
    write_entry(number, 0, NULL);
    free_entry(number);
    filter_change(block, -1);
    sample_table_drop(ALLOC_DROP_LIVE);
}

void sample_table_forget_live(void) {
    struct sample gone;
    uint32_t count = SAMPLE_TABLE_FRONT + (atomic_load(&back_is_used) ? back_slots() : 0);
    for (uint32_t i = 0; index_slots && i < count; i++) {
        uint64_t slot = atomic_load_explicit(&index_slots[i], memory_order_relaxed);
        if (slot)
            (void)sample_table_take((void *)(slot >> NUMBER_BITS << 3), &gone);
    }
}

/* ---- Stacks ---- */

/* Two lanes, so that their multiplications overlap. */
static uint64_t hash_of(const uint64_t *pcs, uint32_t depth, const struct alloc_place *place) {
    const uint64_t factor = 0x9e3779b97f4a7c15ull;
    uint64_t even = depth ^ alloc_tag_of(place), odd = 1 ^ (uint64_t)place->closes << 32;
    uint32_t i = 0;
    for (; i + 1 < depth; i += 2) {
        even = (even ^ pcs[i]) * factor;
        odd = (odd ^ pcs[i + 1]) * factor;
        even ^= even >> 29;
        odd ^= odd >> 31;
    }
    if (i < depth)
        even = (even ^ pcs[i]) * factor;
    uint64_t hash = (even ^ odd >> 7) * factor;
    return hash ^ hash >> 32;
}

static struct alloc_stack *stack_at(uint32_t offset) {
    return (struct alloc_stack *)(stacks + offset * 8ull);
}

static bool is_same_place(const struct alloc_place *one, const struct alloc_place *other) {
    return alloc_tag_of(one) == alloc_tag_of(other) && one->closes == other->closes;
}

static bool is_same(uint32_t offset, uint64_t hash, const uint64_t *pcs, uint32_t depth,
                    const struct alloc_place *place) {
    const struct alloc_stack *stack = stack_at(offset);
    return stack->hash == (uint16_t)(hash >> 48) && stack->depth == depth &&
           is_same_place((const struct alloc_place *)&stack->pcs[depth], place) &&
           memcmp(stack->pcs, pcs, depth * sizeof *pcs) == 0;
}

/* Writes a new stack and returns its offset / 8, 0 = no room. A stack that loses the race for its
 * slot stays unused. */
static uint32_t write_stack(uint64_t hash, const uint64_t *pcs, uint32_t depth,
                            const struct alloc_place *place) {
    uint64_t bytes = sizeof(struct alloc_stack) + depth * sizeof *pcs + ALLOC_PLACE_BYTES;
    uint64_t used = atomic_load(&header->stack_used);
    do {
        if (used + bytes > stacks_bytes())
            return 0;
    } while (!atomic_compare_exchange_weak(&header->stack_used, &used, used + bytes));
    uint32_t number = atomic_load(&header->stack_count);
    do {
        if (number >= ALLOC_STACKS)
            return 0;
    } while (!atomic_compare_exchange_weak(&header->stack_count, &number, number + 1));
    struct alloc_stack *stack = stack_at((uint32_t)(used / 8));
    stack->number = number;
    stack->depth = (uint16_t)depth;
    stack->hash = (uint16_t)(hash >> 48);
    memcpy(stack->pcs, pcs, depth * sizeof *pcs);
    memcpy(&stack->pcs[depth], place, sizeof *place);
    return (uint32_t)(used / 8);
}

uint32_t sample_table_stack(const uint64_t *pcs, uint32_t depth, const struct alloc_place *place) {
    uint64_t hash = hash_of(pcs, depth, place);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < ALLOC_PROBES; i++) {
        _Atomic uint32_t *slot = &stack_slots[(hash + i) & (stack_slot_count() - 1)];
        uint32_t offset = atomic_load_explicit(slot, memory_order_acquire);
        if (offset == 0) {
            fresh = fresh ? fresh : write_stack(hash, pcs, depth, place);
            if (fresh == 0)
                break;
            if (atomic_compare_exchange_strong(slot, &offset, fresh))
                return fresh;
        }
        if (is_same(offset, hash, pcs, depth, place))
            return offset;
    }
    sample_table_drop(ALLOC_DROP_STACKS);
    return 0;
}

static void add_double(_Atomic uint64_t *total, double value) {
    uint64_t bits = atomic_load_explicit(total, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(total, &bits,
                                                  alloc_bits(alloc_double(bits) + value),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

void sample_table_count(uint32_t offset, double objects, double bytes) {
    struct alloc_stack *stack = stack_at(offset);
    add_double(&stack->objects, objects);
    add_double(&stack->bytes, bytes);
    atomic_fetch_add_explicit(&stack->samples, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->samples, 1, memory_order_relaxed);
}
