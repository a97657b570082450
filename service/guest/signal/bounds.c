/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/bounds.h"

#include "service/guest/raw.h"
#include "service/unwind/step/step.h"

#include <errno.h>

#define PAGE      4096ull
#define MAIN_SPAN (128ull << 20) /* the kernel maps nothing else this far below the main stack */

static bool holds(struct walk_stack stack, uint64_t address) {
    return address >= stack.low && address < stack.high;
}

/* Page 0 would be a NULL set, which the kernel does not read. */
static bool is_page_readable(uint64_t page) {
    return page && system_call(SYS_rt_sigprocmask, -1, (long)page, 0, 8, 0) != -EFAULT;
}

uint64_t bounds_probe(uint64_t address, uint64_t limit) {
    uint64_t page = address & ~(PAGE - 1);
    for (uint32_t i = 0; i < BOUNDS_PAGES && page < limit && page < UNWIND_USER_END;
         i++, page += PAGE)
        if (!is_page_readable(page))
            break;
    return page > address ? page : address;
}

static struct walk_stack area_of(uint64_t address) {
    const struct writable_areas *areas =
        atomic_load_explicit(&handler_state.areas, memory_order_acquire);
    struct walk_stack none = {0, 0};
    if (!areas)
        return none;
    uint64_t low = 0, high = areas->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (areas->areas[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < areas->count && holds(areas->areas[low], address) ? areas->areas[low] : none;
}

static bool find_registered(uint64_t sp, struct walk_stack *stack) {
    uint32_t count = atomic_load_explicit(&handler_state.stack_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t low = atomic_load_explicit(&handler_state.stacks[i].low, memory_order_acquire);
        uint64_t high = atomic_load_explicit(&handler_state.stacks[i].high, memory_order_acquire);
        bool is_consistent =
            low == atomic_load_explicit(&handler_state.stacks[i].low, memory_order_acquire);
        if (low && is_consistent && sp >= low && sp < high) {
            *stack = (struct walk_stack){low, high};
            return true;
        }
    }
    return false;
}

/* The stack of a thread that was not created through our pthread_create. A raw clone may share the
 * descriptor of the thread that made it. Then this is that thread's stack, which can be read as
 * safely, and the clone's own stack is treated as unknown. */
static void find_own(struct sampled_thread *thread) {
    uint64_t descriptor = system_thread_descriptor(), top = handler_state.main_stack.high;
    struct walk_stack area = area_of(descriptor);
    if (thread->tid == handler_state.pid && top > MAIN_SPAN)
        thread->stack = (struct walk_stack){top - MAIN_SPAN, top};
    else if (area.high)
        thread->stack = (struct walk_stack){area.low, descriptor};
}

void bounds_find(struct sampled_thread *thread, const ucontext_t *context, struct walk_stack *extra,
                 struct walk_bounds *bounds) {
    uint64_t sp =
        *(const uint64_t *)((const uint8_t *)context + unwind_context_offset(UNWIND_REG_SP));
    uint64_t alternate = (uint64_t)context->uc_stack.ss_sp;
    if (!thread->stack.high)
        find_own(thread);
    *bounds = (struct walk_bounds){.thread = thread->stack, .extra = extra};
    if (holds(thread->stack, sp) || sp - alternate < context->uc_stack.ss_size)
        return;
    bounds->extra_count = 1;
    if (find_registered(sp, extra))
        return;
    struct walk_stack area = area_of(sp);
    *extra = (struct walk_stack){sp, bounds_probe(sp, area.high ? area.high : UNWIND_USER_END)};
}

static bool are_pages_readable(uint64_t low, uint64_t high) {
    if (high <= low || high - low > BOUNDS_OWN_PAGES * PAGE)
        return false;
    for (uint64_t page = low; page < high; page += PAGE)
        if (!is_page_readable(page))
            return false;
    return true;
}

static void find_own_for_call(uint64_t sp, struct walk_stack *own) {
    uint64_t top = handler_state.main_stack.high, page = sp & ~(PAGE - 1);
    uint64_t descriptor = system_thread_descriptor();
    if (top > MAIN_SPAN && sp < top && sp >= top - MAIN_SPAN)
        *own = (struct walk_stack){top - MAIN_SPAN, top};
    else if (are_pages_readable(page, own->high ? own->low : descriptor))
        *own = (struct walk_stack){page, descriptor};
}

void bounds_find_call(uint64_t sp, struct walk_stack *own, struct walk_stack *extra,
                      struct walk_bounds *bounds) {
    *bounds = (struct walk_bounds){.extra = extra};
    if (!holds(*own, sp) && find_registered(sp, extra)) {
        bounds->extra_count = 1;
        return;
    }
    if (!holds(*own, sp))
        find_own_for_call(sp, own);
    bounds->thread = *own;
    if (holds(*own, sp))
        return;
    bounds->extra_count = 1;
    *extra = (struct walk_stack){sp, bounds_probe(sp, UNWIND_USER_END)};
}
