/* SPDX-License-Identifier: Apache-2.0
 *
 * The alternative to copying stacks: the kernel's walk along frame pointers, at each switch out of
 * a watched process. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>
#include <stdint.h>

#define FRAMES 127

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
    int tgid;
};
#pragma clang attribute pop

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, FRAMES * sizeof(uint64_t));
} stacks SEC(".maps");

int watched;
uint64_t frames; /* of the deepest walk */

char program_license[] SEC("license") = "GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next) {
    uint32_t zero = 0;
    if (prev->tgid != watched)
        return 0;
    void *stack = bpf_map_lookup_elem(&stacks, &zero);
    if (!stack)
        return 0;
    long bytes = bpf_get_stack(ctx, stack, FRAMES * sizeof(uint64_t), BPF_F_USER_STACK);
    if (bytes > 0 && bytes / sizeof(uint64_t) > frames)
        frames = bytes / sizeof(uint64_t);
    return 0;
}
