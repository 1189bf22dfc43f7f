/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For `ld -r`: gathers the kernel's tables into a few ordinary sections of one
 * relocatable object, so that any program can be linked with it. Whatever holds
 * an address lies in .data, for a program's own addresses are known only when
 * it is loaded.
 */
#define LOAD_OFFSET 0

#include <asm/page.h>
#include <asm/cache.h>
#include <asm/thread_info.h>
#include <asm-generic/vmlinux.lds.h>
#include <library/series.h>

SECTIONS
{
	.text : {
		_text = .;
		_stext = .;
		TEXT_TEXT
		SCHED_TEXT
		CPUIDLE_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		_sinittext = .;
		*(.head.text)
		INIT_TEXT
		_einittext = .;
		EXIT_TEXT
		_etext = .;
	}

	.rodata : {
		*(.rodata) *(.rodata.*)
		*(__tracepoints_strings)
	}

	.data : ALIGN(PAGE_SIZE) {
		_sdata = .;
		__start_rodata = .;
		*(.data.rel.ro*)
		SCHED_DATA
		RO_AFTER_INIT_DATA
		. = ALIGN(8);
		BOUNDED_SECTION_BY(__tracepoints_ptrs, ___tracepoints_ptrs)
		BOUNDED_SECTION_BY(__param, ___param)
		BOUNDED_SECTION_BY(__modver, ___modver)
		. = ALIGN(8);
		BOUNDED_SECTION_BY(__ex_table, ___ex_table)
		__end_rodata = .;

		INIT_TASK_DATA(PAGE_SIZE)
		NOSAVE_DATA
		PAGE_ALIGNED_DATA(PAGE_SIZE)
		CACHELINE_ALIGNED_DATA(L1_CACHE_BYTES)
		READ_MOSTLY_DATA(L1_CACHE_BYTES)
		DATA_DATA
		*(.data.rel.local) *(.data.rel.local.*) *(.data.rel) *(.data.rel.*)
		*(_ftrace_events) *(_ftrace_eval_map)
		CONSTRUCTORS
		. = ALIGN(8);
		BOUNDED_SECTION_BY(__bug_table, ___bug_table)

		. = ALIGN(PAGE_SIZE);
		__init_begin = .;
		INIT_DATA
		INIT_SETUP(16)
		__initcall_start = .;
		KEEP(*(.initcallearly.init))
		INIT_CALLS_LEVEL(0)
		INIT_CALLS_LEVEL(1)
		INIT_CALLS_LEVEL(2)
		INIT_CALLS_LEVEL(3)
		INIT_CALLS_LEVEL(4)
		INIT_CALLS_LEVEL(5)
		INIT_CALLS_LEVEL(rootfs)
		INIT_CALLS_LEVEL(6)
		INIT_CALLS_LEVEL(7)
		KEEP(*(.initcall7t.init))
		__initcall_end = .;
		CON_INITCALL
		INIT_RAM_FS
		EXIT_DATA
		. = ALIGN(PAGE_SIZE);
		PERCPU_INPUT(L1_CACHE_BYTES)
		. = ALIGN(PAGE_SIZE);
		__init_end = .;
		_edata = .;
	}

	.bss : ALIGN(PAGE_SIZE) {
		__bss_start = .;
		*(.bss..page_aligned)
		. = ALIGN(PAGE_SIZE);
		*(.dynbss)
		*(BSS_MAIN)
		*(.sbss)
		*(COMMON)
		. = ALIGN(8);
		__bss_stop = .;
		_end = .;
		*(.bss..kept)
		. = ALIGN(PAGE_SIZE);
		transom_data_copy = .;
		. += SIZEOF(.data);
	}

	.note.GNU-stack 0 : { *(.note.GNU-stack) }
	DWARF_DEBUG

	/DISCARD/ : {
		*(.exitcall.exit)
		*(.note.gnu.property)
		*(.note.*)
		*(.comment)
		COMMON_DISCARDS
	}
}

jiffies = jiffies_64;
