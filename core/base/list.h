/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A circular doubly linked list whose links live inside the listed objects. The list owns nothing
 * and locks nothing: both are the business of whoever holds the head.
 */
#ifndef HM_BASE_LIST_H
#define HM_BASE_LIST_H

#include <stdbool.h>

#include "core/base/range.h"

/* The head of a list, and the link inside each of its objects. */
struct hm_list {
	struct hm_list *next;
	struct hm_list *prev;
};

static inline void hm_list_init(struct hm_list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool hm_list_empty(const struct hm_list *head)
{
	return head->next == head;
}

static inline void hm_list_add_tail(struct hm_list *head, struct hm_list *link)
{
	struct hm_list *last = head->prev;

	link->prev = last;
	link->next = head;
	last->next = link;
	head->prev = link;
}

/* The link is left pointing at itself, so that deleting it a second time harms no list. */
static inline void hm_list_del(struct hm_list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	hm_list_init(link);
}

#define hm_list_entry(link, type, member) hm_container(link, type, member)

#define hm_list_for_each(pos, head)                                                                \
	for (struct hm_list *pos = (head)->next; pos != (head); pos = pos->next)

/* The body may delete pos itself, but no other link. */
#define hm_list_for_each_safe(pos, head)                                                           \
	for (struct hm_list *pos = (head)->next, *pos##_next = pos->next; pos != (head);           \
	     pos = pos##_next, pos##_next = pos->next)

#endif
