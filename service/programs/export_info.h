/* SPDX-License-Identifier: Apache-2.0
 *
 * What GetInfo reports about the exporter (service/export). */
#ifndef SONDE_SERVICE_PROGRAMS_EXPORT_INFO_H
#define SONDE_SERVICE_PROGRAMS_EXPORT_INFO_H

#include "service/rpc/server.h"

rpc_export_info export_info; /* context: the exporter; NULL = there is none. Any thread */

#endif
