/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_ELF_H
#define _ASM_TRANSOM_ELF_H

#include <asm/ptrace.h>

#define ELF_NGREG (sizeof(struct user_regs_struct) / sizeof(elf_greg_t))

typedef unsigned long elf_greg_t;
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef unsigned long elf_fpregset_t;

/* No program is ever loaded. */
#define ELF_ARCH EM_NONE
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_EXEC_PAGESIZE PAGE_SIZE
#define ELF_PLATFORM NULL
#define elf_check_arch(x) 0

#endif
