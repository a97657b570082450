/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/completeness.h"

#include "gateway/mcp/tool.h"

#include <math.h>

#define NS          1e9
#define FEW_SAMPLES 200
#define Q95         1.96

static void put_sampled(struct sonde_buf *head, const Sonde__V1__Completeness *known) {
    if (known->counted_ns > 0)
        sonde_buf_printf(head,
                         ", %.1f %% of the CPU time that the kernel counted (%.2f of %.2f s, "
                         "± %.0f %% by chance)",
                         100 * (double)known->sampled_ns / (double)known->counted_ns,
                         (double)known->sampled_ns / NS, (double)known->counted_ns / NS,
                         100 * Q95 / sqrt((double)(known->samples ? known->samples : 1)));
    if (known->drawn_processes > 0)
        sonde_buf_printf(head, "; %llu processes stand for %.0f, ± %.1f %%",
                         (unsigned long long)known->drawn_processes, known->drawn_for,
                         100 * Q95 * known->drawn_deviation);
}

static void put_gaps(struct sonde_buf *head, const Sonde__V1__Completeness *known) {
    if (known->recording_began_unix_ns) {
        sonde_buf_puts(head, " Nothing was recorded before ");
        mcp_put_time(head, known->recording_began_unix_ns);
        sonde_buf_putc(head, '.');
    }
    if (known->n_silences || known->silences_omitted)
        sonde_buf_printf(head, " Parts of the range in which a host recorded nothing: %llu.",
                         (unsigned long long)known->n_silences + known->silences_omitted);
    if (known->trimmed_nodes || known->unknown_stacks)
        sonde_buf_printf(head, " %llu rare nodes are merged; %llu stacks have no frames.",
                         (unsigned long long)known->trimmed_nodes,
                         (unsigned long long)known->unknown_stacks);
    if (known->shards_answered < known->shards_asked)
        sonde_buf_printf(head, " Only %u of %u shards of the store answered.",
                         known->shards_answered, known->shards_asked);
}

void mcp_put_completeness(struct mcp_text *text, const char *of,
                          const Sonde__V1__Completeness *known) {
    struct sonde_buf *head = &text->head;
    if (!known)
        return;
    sonde_buf_printf(head, "%s: %llu of %llu windows, %llu samples, %llu dropped", of,
                     (unsigned long long)known->windows_received,
                     (unsigned long long)known->windows_expected,
                     (unsigned long long)known->samples, (unsigned long long)known->dropped);
    put_sampled(head, known);
    if (known->first_unix_ns) {
        sonde_buf_puts(head, "; from ");
        mcp_put_time(head, known->first_unix_ns);
        sonde_buf_puts(head, " to ");
        mcp_put_time(head, known->last_unix_ns);
    }
    sonde_buf_putc(head, '.');
    put_gaps(head, known);
    sonde_buf_putc(head, '\n');
}

static void put_samples(struct sonde_buf *head, const Sonde__V1__ResultStart *result) {
    sonde_buf_printf(head, "%llu samples", (unsigned long long)result->samples);
    if (result->duration_ms)
        sonde_buf_printf(head, " in %.1f s", result->duration_ms / 1000.0);
    if (result->frequency_hz > 0)
        sonde_buf_printf(head, " at %.4g Hz", result->frequency_hz);
    sonde_buf_printf(head, ", %llu dropped", (unsigned long long)result->dropped);
    if (result->truncated > 0) /* only known of a new capture */
        sonde_buf_printf(head, ", %llu stacks cut", (unsigned long long)result->truncated);
    sonde_buf_puts(head, ".\n");
    if (result->samples == 0)
        sonde_buf_puts(head, "No samples: the target was idle, or cannot be sampled; the tool "
                             "why_no_data says which.\n");
    else if (result->samples < FEW_SAMPLES)
        sonde_buf_puts(head, "Few samples, so the intervals are wide: record for longer, or with a "
                             "higher frequency.\n");
    if (result->target_execed)
        sonde_buf_puts(head, "The process called exec meanwhile and runs another program now.\n");
    else if (result->target_gone)
        sonde_buf_puts(head, "The process ended before the capture did.\n");
}

void mcp_put_result(struct mcp_text *text, const Sonde__V1__ResultStart *result) {
    if (result->capture_id)
        sonde_buf_printf(&text->head, "Capture %llu: ", (unsigned long long)result->capture_id);
    if (result->completeness) {
        mcp_put_completeness(text, result->base_completeness ? "New" : "Completeness",
                             result->completeness);
        mcp_put_completeness(text, "Base", result->base_completeness);
    } else {
        put_samples(&text->head, result);
    }
    if (result->keep_error[0]) {
        sonde_buf_puts(&text->head, "The capture could not be saved; the data begins with why.\n");
        mcp_text_put_name(text, result->keep_error, MCP_LINE_BYTES);
        mcp_text_puts(text, "\n");
    }
}
