/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast half of the walker. The chain of dependent loads is: cache slot, return address, next
 * cache slot. Everything else (tag check, bounds, rbp, storing the pc) runs beside that chain and
 * is predicted. So a slot holds tag and hot rule in 16 bytes of one cache line and is found by the
 * low bits of the pc alone. Nearly every frame has a CFA of rsp or rbp plus a number and never
 * leaves the loop; each of the others takes one step of walk_slow.c. */
#include "service/guest/signal/walk_memo.h"

#include <string.h>

void walk_module_init(struct walk_module *module, uint64_t start, uint64_t end, uint64_t bias,
                      const void *image) {
    const struct unwind_header *header = image;
    *module = (struct walk_module){.start = start, .end = end};
    if (!header)
        return;
    const uint8_t *bytes = image;
    module->text = header->base + bias;
    module->text_bytes = (uint32_t)header->text_bytes;
    module->rule_count = header->rule_count;
    module->pages = (const uint32_t *)(bytes + header->pages_offset);
    module->rows = (const uint16_t *)(bytes + header->rows_offset);
    module->pcs = bytes + header->pcs_offset;
    module->hot = (const uint64_t *)(bytes + header->hot_offset);
}

WALK_INLINE const struct walk_module *find_module(const struct walk_map *map, uint64_t address) {
    const struct walk_module *low = map->modules;
    if (map->count == 0)
        return NULL;
    for (uint64_t count = map->count; count > 1;) {
        uint64_t half = count / 2;
        low += low[half].start <= address ? half : 0;
        count -= half;
    }
    return address >= low->start && address < low->end ? low : NULL;
}

const struct walk_module *walk_map_find(const struct walk_map *map, uint64_t address) {
    return find_module(map, address);
}

/* Counts how many of `count` rising bytes are <= limit, eight at a time. In `above` the top bit of
 * each byte > limit is set, and of each byte past the end, which is readable (UNWIND_SLACK). */
WALK_INLINE uint32_t count_up_to(const uint8_t *bytes, uint32_t count, uint8_t limit) {
    const uint64_t tops = 0x8080808080808080ull;
    uint64_t limits = limit * 0x0101010101010101ull;
    uint32_t found = 0;
    for (; found < count; found += 8) {
        uint64_t eight;
        memcpy(&eight, bytes + found, 8);
        uint64_t low_bits = (limits | tops) - (eight & ~tops);
        uint64_t above = ~((~eight & limits) | (~(eight ^ limits) & low_bits)) & tops;
        if (count - found < 8)
            above |= tops << 8 * (count - found);
        if (above)
            return found + (uint32_t)__builtin_ctzll(above) / 8;
    }
    return found;
}

/* The number of key's rule in its module's table; key must be in the table's text. */
WALK_INLINE uint32_t rule_of(const struct walk_module *module, uint64_t key) {
    uint32_t at = (uint32_t)(key - module->text);
    const uint32_t *page = module->pages + at / UNWIND_PAGE;
    uint32_t row = page[0] + count_up_to(module->pcs + page[0], page[1] - page[0], (uint8_t)at);
    return module->rows[row - 1];
}

struct walk_position walk_look_up(const struct walk_map *map, uint64_t key) {
    static const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE};
    struct walk_position position = {find_module(map, key), NULL};
    const struct walk_module *module = position.module;
    if (!module || module->text_bytes == 0)
        return position;
    const struct unwind_rule *rules =
        (const struct unwind_rule *)(module->hot + module->rule_count);
    position.rule = key - module->text < module->text_bytes ? &rules[rule_of(module, key)] : &none;
    return position;
}

static uint64_t look_up_hot(const struct walk_map *map, uint64_t key) {
    const struct walk_module *module = find_module(map, key);
    if (!module || module->text_bytes == 0)
        return WALK_CFA_POINTER;
    if (key - module->text >= module->text_bytes)
        return UNWIND_CFA_NONE;
    return module->hot[rule_of(module, key)];
}

/* The generation, in the bits that no key uses. Never 0, so an empty slot matches no key. */
WALK_INLINE uint64_t tag_of(const struct walk_map *map) {
    return ((map->generation & 0x7fff) | 0x8000) << 48;
}

/* Tags repeat after 32,768 generations, so then all slots are emptied. */
static void renew_cache(struct walk_cache *cache, uint64_t epoch) {
    for (uint32_t i = 0; i < WALK_CACHE_SLOTS; i++)
        cache->slots[i].tag = 0;
    cache->epoch = epoch;
}

static __attribute__((noinline)) uint64_t fill_slot(struct walk_cache *cache,
                                                    struct walk_slot *slot,
                                                    const struct walk_map *map, uint64_t key) {
    uint64_t rule = look_up_hot(map, key);
    slot->rule = rule;
    slot->tag = key ^ tag_of(map);
    cache->misses++;
    return rule;
}

/* A position in a walk. The loop keeps a copy in registers. */
struct place {
    uint64_t pc, sp, bp;
    uint64_t key; /* what to look up for pc */
    uint8_t kind; /* of the rule that stopped the loop */
};

/* Walks frames of the simple kinds. Stops before a frame of another kind or outside the stack, or
 * when the pcs are full; place and walk->at are those of that frame. False if a load faulted. memo
 * may be NULL. */
WALK_INLINE bool run_frames(struct walk *walk, struct walk_cache *cache, struct place *place,
                            struct memo_walk *memo) {
    const uint64_t tag = tag_of(walk->map);
    uint64_t *out = walk->pcs + walk->at, *const limit = walk->pcs + walk->max;
    uint64_t pc = place->pc, sp = place->sp, bp = place->bp, key = place->key;
    bool loaded = true;
    uint8_t kind = UNWIND_CFA_NONE;
    while (out < limit) {
        if (memo && memo_has(memo, key, sp, bp)) {
            uint32_t from = memo->at;
            const struct walk_memo_frame *known =
                memo_reuse(memo, walk, out, (uint64_t)(limit - out));
            out += memo->at - from;
            pc = memo->at > from ? out[-1] : pc;
            key = known->key, sp = known->sp, bp = known->bp;
            if (out == limit)
                break;
        }
        struct walk_slot *slot = &cache->slots[key % WALK_CACHE_SLOTS];
        uint64_t rule = slot->rule, caller, saved;
        if (WALK_UNLIKELY(slot->tag != (key ^ tag)))
            rule = fill_slot(cache, slot, walk->map, key);
        kind = (uint8_t)rule;
        if (WALK_UNLIKELY(kind != UNWIND_CFA_RSP && kind != UNWIND_CFA_RBP))
            break;
        uint64_t cfa = sp;
        if (kind == UNWIND_CFA_RBP) {
            cfa = bp;
            __asm__("" : "+r"(cfa)); /* keep the branch: a conditional move would wait for both */
        }
        cfa += (uint64_t)((int64_t)rule >> 32);
        const struct unwind_places at = unwind_hot_places(rule, cfa);
        if (WALK_UNLIKELY(!walk_holds(walk, sp, at.pc) || !walk_holds(walk, walk->low, at.fp)))
            break;
        loaded = walk_load(at.pc, &caller) && walk_load(at.fp, &saved);
        caller = unwind_strip(caller);
        if (WALK_UNLIKELY(!loaded || !walk_is_code(caller)))
            break;
        if (memo)
            memo_add(memo, &(struct walk_memo_frame){key, sp, bp, at.fp});
        *out++ = pc = caller;
        bp ^= (bp ^ saved) & at.is_saved;
        sp = cfa, key = pc - 1;
    }
    if (memo)
        memo_add(memo, &(struct walk_memo_frame){.key = key, .sp = sp, .bp = bp});
    walk->at = (uint32_t)(out - walk->pcs);
    *place = (struct place){pc, sp, bp, key, kind};
    return loaded;
}

static bool run(struct walk *walk, struct walk_cache *cache, struct place *place) {
    return run_frames(walk, cache, place, NULL);
}

static bool run_with_memo(struct walk *walk, struct walk_cache *cache, struct place *place,
                          struct memo_walk *memo) {
    return run_frames(walk, cache, place, memo);
}

/* Steps over the frame that stopped the loop. Of frame 0 all registers are known, of others three.
 */
static enum unwind_step rare_step(struct walk *walk, const struct unwind_registers *first,
                                  struct place *place) {
    struct unwind_registers registers;
    if (walk->at == 1 && walk->laps == 0) {
        registers = *first;
    } else {
        registers.value[UNWIND_REG_SP] = place->sp;
        registers.value[UNWIND_REG_FP] = place->bp;
        registers.value[UNWIND_REG_PC] = place->pc;
        registers.known = WALK_ALWAYS_KNOWN;
    }
    enum unwind_step step = walk_step(walk, &registers, place->key);
    if (!unwind_step_is_end(step) && !unwind_is_known(&registers, UNWIND_REG_SP))
        return UNWIND_STEP_NEEDS;
    place->sp = registers.value[UNWIND_REG_SP];
    place->bp = registers.value[UNWIND_REG_FP];
    place->pc = registers.value[UNWIND_REG_PC];
    place->key = place->pc - (step != UNWIND_STEP_EXACT);
    return step;
}

/* False if a rule needs a register that this walk does not keep. */
static bool walk_fast(struct walk *walk, struct walk_cache *cache, struct memo_walk *memo,
                      const struct unwind_registers *first) {
    struct place place = {first->value[UNWIND_REG_PC], first->value[UNWIND_REG_SP],
                          first->value[UNWIND_REG_FP], first->value[UNWIND_REG_PC],
                          UNWIND_CFA_NONE};
    enum unwind_step step;
    uint64_t mark;
    do {
        walk->end = RING_END_BAD_STACK;
        bool loaded = memo ? run_with_memo(walk, cache, &place, memo) : run(walk, cache, &place);
        if (!loaded || !walk_has_room(walk))
            return true;
        if (WALK_LIKELY(place.kind == UNWIND_CFA_END)) {
            walk->end = RING_END_ROOT;
            return true;
        }
        step = rare_step(walk, first, &place);
        if (step == UNWIND_STEP_NEEDS || unwind_step_is_end(step))
            return step != UNWIND_STEP_NEEDS;
        mark = step == UNWIND_STEP_EXACT ? RING_PC_EXACT : 0;
    } while (walk_push(walk, place.pc, mark));
    return true;
}

static void reverse(uint64_t *from, uint64_t *to) {
    while (from < --to) {
        uint64_t swap = *from;
        *from++ = *to;
        *to = swap;
    }
}

/* Rotates the ring of root-most pcs into order and fills in the result. */
void walk_finish(struct walk *walk, struct walk_result *result) {
    uint32_t half = walk->max / 2, ring = walk->max - half;
    *result = (struct walk_result){.depth = walk->at,
                                   .end = walk->end,
                                   .fp_frames = walk->fp_frames,
                                   .has_exact = walk->has_exact,
                                   .frames = walk->at};
    if (walk->laps == 0)
        return;
    if (walk->laps == 1 && walk->at == half) { /* the root was the last pc that fit */
        result->depth = result->frames = walk->max;
        return;
    }
    result->end = RING_END_DEPTH;
    result->frames = walk->at + walk->laps * ring;
    if (walk->laps > WALK_MAX_FRAMES / ring) { /* no root: the ring holds frames from the middle */
        result->depth = half;
        return;
    }
    reverse(walk->pcs + half, walk->pcs + walk->at);
    reverse(walk->pcs + walk->at, walk->pcs + walk->max);
    reverse(walk->pcs + half, walk->pcs + walk->max);
    result->depth = walk->max;
    result->gap_at = (uint16_t)half;
}

void walk_start(struct walk *walk, const struct unwind_registers *first) {
    walk->at = walk->laps = walk->switches = 0;
    walk->fp_frames = 0;
    walk->end = RING_END_BAD_STACK;
    walk->pcs[walk->at++] = first->value[UNWIND_REG_PC] & ~RING_PC_EXACT;
}

static void walk_all(struct walk *walk, struct walk_cache *cache, struct memo_walk *memo,
                     const struct unwind_registers *first, struct walk_result *result) {
    uint64_t epoch = walk->map->generation >> 15;
    if (WALK_UNLIKELY(cache->epoch != epoch))
        renew_cache(cache, epoch);
    if (walk->max == 0) {
        *result = (struct walk_result){.end = RING_END_DEPTH};
        return;
    }
    walk_start(walk, first);
    if (walk_is_code(first->value[UNWIND_REG_PC]) &&
        walk_enter_stack(walk, first->value[UNWIND_REG_SP]) &&
        !walk_fast(walk, cache, memo, first)) {
        walk_start(walk, first);
        if (walk_enter_stack(walk, first->value[UNWIND_REG_SP]))
            walk_slowly(walk, first, NULL, NULL);
    }
    walk_finish(walk, result);
}

void walk_from_registers(const struct unwind_registers *registers, const struct walk_map *map,
                         struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                         uint32_t max_depth, struct walk_result *result) {
    struct walk walk = {.map = map, .bounds = bounds, .pcs = pcs, .max = max_depth};
    walk_all(&walk, cache, NULL, registers, result);
}

void walk_from_call(const struct unwind_registers *registers, const struct walk_map *map,
                    struct walk_cache *cache, struct walk_memo *memo,
                    const struct walk_bounds *bounds, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result) {
    struct walk walk = {.map = map, .bounds = bounds, .pcs = pcs, .max = max_depth};
    struct memo_walk on;
    memo_begin(&on, memo, map);
    walk_all(&walk, cache, &on, registers, result);
    memo_end(&on);
}

void walk_from_context(const ucontext_t *context, const struct walk_map *map,
                       struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                       uint32_t max_depth, struct walk_result *result) {
    struct unwind_registers registers;
    struct walk walk = {.map = map, .bounds = bounds, .pcs = pcs, .max = max_depth};
    unwind_take_context(&registers, context);
    walk.alternate.low = (uint64_t)context->uc_stack.ss_sp;
    walk.alternate.high = walk.alternate.low + context->uc_stack.ss_size;
    uint64_t sp = registers.value[UNWIND_REG_SP];
    if (sp < walk.alternate.low ||
        sp >= walk.alternate.high) /* not in use, so it may be unmapped by now */
        walk.alternate.high = walk.alternate.low;
    walk_all(&walk, cache, NULL, &registers, result);
}
