/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the programs on stderr: "sonded: TEXT". When stderr goes to systemd's journal, a line
 * begins with its priority, which the journal removes and stores: "<4>sonded: TEXT" (sd-daemon(3)).
 * Thread safety: any thread. */
#ifndef SONDE_API_OS_LOG_H
#define SONDE_API_OS_LOG_H

/* As in syslog(3). */
enum log_priority { LOG_LINE_ERROR = 3, LOG_LINE_WARNING = 4, LOG_LINE_INFO = 6 };

/* program NULL: the text has its own beginning. The text has no newline. */
void log_write(enum log_priority priority, const char *program, const char *text);
/* A line of a callback that has no priority: audits and lines about success are INFO, others
 * WARNING. */
void log_report(const char *program, const char *text);

#endif
