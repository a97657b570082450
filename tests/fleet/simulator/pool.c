/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/pool.h"

#include "service/store/ids.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ZIPF_EXPONENT 1.1

uint64_t pool_random(uint64_t *state) {
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t pool_mix(uint64_t a, uint64_t b) {
    uint64_t state = a * UINT64_C(0xff51afd7ed558ccd) + b;
    return pool_random(&state);
}

static void fill_stack(struct pool_service *service, struct pool_stack *stack, uint64_t *random) {
    uint64_t frames[POOL_MAX_DEPTH];
    stack->depth = 4 + (uint32_t)(pool_random(random) % (POOL_MAX_DEPTH - 3));
    for (uint32_t i = 0; i < stack->depth; i++) {
        stack->functions[i] =
            i + 1 == stack->depth ? 0 : (uint8_t)(pool_random(random) % POOL_FUNCTIONS);
        frames[i] = service->frame_ids[stack->functions[i]];
    }
    stack->id = store_stack_id(service->name, frames, stack->depth);
}

static void fill_service(struct pool *pool, size_t index, uint64_t seed) {
    struct pool_service *service = &pool->services[index];
    uint64_t random = pool_mix(seed, index);
    snprintf(service->name, sizeof service->name, "service-%03zu", index);
    snprintf(service->module, sizeof service->module, "/opt/%s/bin/server", service->name);
    snprintf(service->build_id, sizeof service->build_id, "%016llx%016llx%08zx",
             (unsigned long long)pool_random(&random), (unsigned long long)pool_random(&random),
             index);
    for (uint32_t i = 0; i < POOL_FUNCTIONS; i++)
        service->frame_ids[i] =
            store_frame_id(service->build_id, service->module, 0x1000 + 64 * i, "");
    service->stacks = calloc(pool->stack_count, sizeof *service->stacks);
    for (size_t i = 0; i < pool->stack_count; i++)
        fill_stack(service, &service->stacks[i], &random);
}

void pool_init(struct pool *pool, uint64_t seed, size_t services, size_t stacks) {
    *pool = (struct pool){.service_count = services, .stack_count = stacks};
    pool->services = calloc(services, sizeof *pool->services);
    pool->zipf = calloc(stacks, sizeof *pool->zipf);
    double sum = 0;
    for (size_t i = 0; i < stacks; i++)
        pool->zipf[i] = sum += pow((double)(i + 1), -ZIPF_EXPONENT);
    for (size_t i = 0; i < stacks; i++)
        pool->zipf[i] /= sum;
    for (size_t i = 0; i < services; i++)
        fill_service(pool, i, seed);
}

void pool_finish(struct pool *pool) {
    for (size_t i = 0; i < pool->service_count; i++)
        free(pool->services[i].stacks);
    free(pool->services);
    free(pool->zipf);
}

uint32_t pool_draw(const struct pool *pool, uint64_t random) {
    double wanted = (double)(random >> 11) * 0x1p-53;
    size_t low = 0, high = pool->stack_count - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (pool->zipf[middle] > wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low;
}

size_t pool_find(const struct pool *pool, size_t service, uint64_t id) {
    for (size_t i = 0; i < pool->stack_count; i++)
        if (pool->services[service].stacks[i].id == id)
            return i;
    return SIZE_MAX;
}

uint32_t pool_text_number(size_t process, uint32_t which) {
    return TEXT_SERVICES + (uint32_t)process * POOL_TEXTS + which;
}

uint32_t pool_frame_number(size_t process, uint32_t function) {
    return (uint32_t)process * POOL_FUNCTIONS + function + 1;
}

uint32_t pool_stack_number(const struct pool *pool, size_t process, uint32_t stack) {
    return (uint32_t)(process * pool->stack_count) + stack + 1;
}
