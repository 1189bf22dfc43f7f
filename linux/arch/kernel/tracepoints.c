// SPDX-License-Identifier: GPL-2.0
/*
 * Tracepoints without ftrace.
 *
 * The network stack's tracepoints are wanted for probes of our own. The headers
 * that define them make events of ftrace beside, which nobody ever enables and
 * which is not built: their tables refer to functions that are never called.
 */
#include <linux/bug.h>
#include <linux/linkage.h>

/* drivers/base defines its tracepoint only with ftrace, and uses it always. */
#define CREATE_TRACE_POINTS
#include <trace.h>

asmlinkage void transom_no_ftrace(void);

asmlinkage void transom_no_ftrace(void)
{
	BUG();
}

#define NO_FTRACE(name) asm(".globl " #name "\n.set " #name ", transom_no_ftrace")

NO_FTRACE(__trace_trigger_soft_disabled);
NO_FTRACE(trace_event_buffer_commit);
NO_FTRACE(trace_event_buffer_reserve);
NO_FTRACE(trace_event_printf);
NO_FTRACE(trace_event_raw_init);
NO_FTRACE(trace_event_reg);
NO_FTRACE(trace_handle_return);
NO_FTRACE(trace_output_call);
NO_FTRACE(trace_print_bitmask_seq);
NO_FTRACE(trace_print_flags_seq);
NO_FTRACE(trace_print_hex_seq);
NO_FTRACE(trace_print_symbols_seq);
NO_FTRACE(trace_raw_output_prep);
