/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Events into rings that user space maps, for `transom record`, `log` and `top`. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "kprobes.h"
#include "lifecycle.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
