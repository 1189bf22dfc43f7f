/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_CURRENT_H
#define _ASM_TRANSOM_CURRENT_H

#ifndef __ASSEMBLY__

struct task_struct;

extern struct task_struct *transom_current;

#define get_current() transom_current
#define current get_current()

#endif

#endif
