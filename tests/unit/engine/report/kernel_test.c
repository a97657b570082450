/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the kernel in a report: whole addresses, and one name for all where there is none. */
#include "service/engine/report/report.h"
#include "tests/unit/check.h"

#include <string.h>

static struct sonde_profile *report_of(const uint64_t *pcs, size_t count) {
    struct symbol_options options = {0};
    struct symbol_store *store;
    struct report_input input = {.part_count = 1, .frequency_hz = 99};
    struct report_part *part = &input.parts[0];
    struct mapping *mapping = mapping_create_kernel();
    struct symbol_mapping from = mapping_as_symbol(mapping);
    struct symbol_module *module;
    struct sonde_profile *profile;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_open(store, 0, &from, &module, NULL), ==, SONDE_OK);
    mapping->has_bias = symbol_module_bias(module, &from, &mapping->bias);
    atomic_store(&mapping->module, module);
    atomic_store(&mapping->has_names, true);
    part->stacks = stacks_create(0, 0);
    uint32_t number = stacks_add_mapping(part->stacks, mapping), parent = 0;
    for (size_t i = count; i-- > 0;)
        parent = stacks_add_frame(part->stacks, parent, number,
                                  i == 0 ? pcs[i] | RING_PC_EXACT : pcs[i] & ~RING_PC_EXACT);
    struct count_key key = {.stack = parent};
    CHECK_INT(counts_add(&part->counts, &key, 1, 0), ==, SONDE_OK);
    CHECK_INT(report_build(&input, store, &profile, NULL), ==, SONDE_OK);
    report_input_finish(&input);
    mapping_release(mapping);
    symbol_store_destroy(store);
    return profile;
}

TEST(kernel_frames_have_whole_addresses_inside_of_their_mapping) {
    const uint64_t pcs[] = {0xffff900000000010, 0xffff900000000021};
    struct sonde_profile *profile = report_of(pcs, 2);
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    CHECK_INT(sample.location_count, ==, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample.locations[i]);
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
        CHECK_INT(location->address, ==, pcs[i] - i); /* a return address is in its call */
        CHECK_INT(location->kind, ==, SONDE_FRAME_KERNEL);
        CHECK_STR(sonde_profile_text(profile, mapping->filename), SYMBOL_KERNEL_PATH);
        CHECK_INT(mapping->start, <=, location->address);
        CHECK_INT(mapping->limit, >, location->address);
    }
    sonde_profile_destroy(profile);
}

TEST(nameless_kernel_frames_share_one_name) {
    const uint64_t pcs[] = {0xffff900000000010, 0xffff900000000021};
    struct sonde_profile *profile = report_of(pcs, 2);
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    uint32_t functions[2];
    for (size_t i = 0; i < 2; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample.locations[i]);
        CHECK_INT(location->line_count, ==, 1);
        functions[i] = location->lines[0].function;
        const struct sonde_function *function = sonde_profile_function(profile, functions[i]);
        CHECK_STR(sonde_profile_text(profile, function->name), "[kernel]");
    }
    CHECK_INT(functions[0], ==, functions[1]);
    sonde_profile_destroy(profile);
}
