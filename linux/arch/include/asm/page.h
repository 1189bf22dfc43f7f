/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_PAGE_H
#define _ASM_TRANSOM_PAGE_H

#include <linux/const.h>
#include <library/series.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (_AC(1, UL) << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))

#ifndef __ASSEMBLY__

#include <linux/types.h>

typedef struct {
	unsigned long pte;
} pte_t;
typedef struct {
	unsigned long pmd;
} pmd_t;
typedef struct {
	unsigned long pgd;
} pgd_t;
typedef struct {
	unsigned long pgprot;
} pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(x) ((x).pte)
#define pmd_val(x) ((&x)->pmd)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t){(x)})
#define __pmd(x) ((pmd_t){(x)})
#define __pgd(x) ((pgd_t){(x)})
#define __pgprot(x) ((pgprot_t){(x)})

#define clear_page(page) memset((page), 0, PAGE_SIZE)
#define copy_page(to, from) memcpy((to), (from), PAGE_SIZE)
#define clear_user_page(page, vaddr, pg) clear_page(page)
#define copy_user_page(to, from, vaddr, pg) copy_page(to, from)

/* The block of memory that the host gave; "physical" addresses count from its start. */
extern unsigned long transom_memory;
extern unsigned long transom_memory_size;

#define PAGE_OFFSET transom_memory

#define __pa(vaddr) ((unsigned long)(vaddr) - transom_memory)
#define __va(paddr) ((void *)((unsigned long)(paddr) + transom_memory))

static inline unsigned long virt_to_pfn(const void *kaddr)
{
	return __pa(kaddr) >> PAGE_SHIFT;
}

static inline void *pfn_to_virt(unsigned long pfn)
{
	return __va(pfn << PAGE_SHIFT);
}

#define virt_to_page(addr) (mem_map + virt_to_pfn(addr))
#define page_to_virt(page) pfn_to_virt((page) - mem_map)

/* The library's own data lies in the program, outside this block. */
#define virt_addr_valid(kaddr) (__pa(kaddr) < transom_memory_size)

#endif

#include <asm-generic/getorder.h>
#include <asm-generic/memory_model.h>

#define page_to_phys(page) __pfn_to_phys(page_to_pfn(page))
#define phys_to_page(phys) pfn_to_page(__phys_to_pfn(phys))

#endif
