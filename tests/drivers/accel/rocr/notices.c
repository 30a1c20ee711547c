/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is told that memory is freed: of hsa_amd_memory_pool_allocate's alone. */
#include <stdlib.h>

#include "tests/drivers/accel/rocr/emu.h"

rocr_status hsa_amd_register_deallocation_callback(void *ptr, void (*callback)(void *, void *),
						   void *user_data)
{
	rocr_status status = ROCR_ERROR_INVALID_ALLOCATION;
	struct emu_notice *notice;
	struct accel_range range;
	struct emu_memory *memory;

	CALL("hsa_amd_register_deallocation_callback");
	if (!ptr || !callback)
		return ROCR_ERROR_INVALID_ARGUMENT;
	notice = malloc(sizeof(*notice));
	if (!notice)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	*notice = (struct emu_notice){ NULL, ptr, callback, user_data };
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	if (memory && range.kind == EMU_POOL && emu.notice) {
		notice->next = memory->notices;
		memory->notices = notice;
		status = ROCR_SUCCESS;
	}
	pthread_mutex_unlock(&emu_lock);
	if (status == ROCR_SUCCESS)
		accel_live("notice", 1);
	else
		free(notice);
	return status;
}

rocr_status hsa_amd_deregister_deallocation_callback(void *ptr, void (*callback)(void *, void *))
{
	struct emu_notice *found = NULL;
	struct accel_range range;
	struct emu_memory *memory;

	CALL("hsa_amd_deregister_deallocation_callback");
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	for (struct emu_notice **at = memory ? &memory->notices : NULL; at && *at && !found;) {
		if ((*at)->ptr == ptr && (*at)->callback == callback) {
			found = *at;
			*at = found->next;
		} else {
			at = &(*at)->next;
		}
	}
	pthread_mutex_unlock(&emu_lock);
	if (!found)
		return ROCR_ERROR_INVALID_ARGUMENT;
	accel_live("notice", -1);
	free(found);
	return ROCR_SUCCESS;
}

void emu_notify(struct emu_notice *notices)
{
	while (notices) {
		struct emu_notice *notice = notices;

		notices = notice->next;
		accel_live("notice", -1);
		notice->callback(notice->ptr, notice->user_data);
		free(notice);
	}
}
