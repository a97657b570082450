#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Plays conversations: run.sh GATEWAY PROTO [--sonded BIN --guest SO --demo BIN] FILE...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
gateway=$1 proto=$2
shift 2
exec /usr/bin/python3 -B "$here/conversation.py" --gateway "$gateway" --proto "$proto" "$@"
