/* SPDX-License-Identifier: BSD-2-Clause */
/* What the loader asks a driver for: tables of functions. */
#include "tests/drivers/accel/ze/ze_emu.h"

#ifndef EMU_ZE_NAME
#define EMU_ZE_NAME "ZE"
#endif

const char accel_driver[] = EMU_ZE_NAME;

static const struct emu_entry *const entries[] = { emu_device_entries, emu_alloc_entries,
						   emu_virtual_entries, emu_list_entries,
						   emu_event_entries };

/* Only what specification 1.5 has is written: a later loader's tables are longer, and cleared. */
static l0_result fill(l0_api_version version, void **slots, enum ddi_table table)
{
	NEED_POINTER(slots);
	if (version >> 16 != 1)
		return L0_UNSUPPORTED_VERSION;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		for (const struct emu_entry *e = entries[i]; e->function; e++)
			if (e->table == table)
				slots[e->index] = e->function;
	return L0_SUCCESS;
}

#define TABLE(name, table)                                                                         \
	EXPORT l0_result name(l0_api_version version, void **slots);                               \
	EXPORT l0_result name(l0_api_version version, void **slots)                                \
	{                                                                                          \
		return fill(version, slots, table);                                                \
	}

TABLE(zeGetGlobalProcAddrTable, DDI_GLOBAL)
TABLE(zeGetDriverProcAddrTable, DDI_DRIVER)
TABLE(zeGetDeviceProcAddrTable, DDI_DEVICE)
TABLE(zeGetContextProcAddrTable, DDI_CONTEXT)
TABLE(zeGetCommandQueueProcAddrTable, DDI_QUEUE)
TABLE(zeGetCommandListProcAddrTable, DDI_LIST)
TABLE(zeGetFenceProcAddrTable, DDI_FENCE)
TABLE(zeGetEventPoolProcAddrTable, DDI_POOL)
TABLE(zeGetEventProcAddrTable, DDI_EVENT)
TABLE(zeGetPhysicalMemProcAddrTable, DDI_PHYSICAL)
TABLE(zeGetMemProcAddrTable, DDI_MEM)
TABLE(zeGetVirtualMemProcAddrTable, DDI_VIRTUAL)

/* Tables of which this driver has nothing; the loader refuses a driver without them. */
TABLE(zeGetDeviceExpProcAddrTable, DDI_TABLES)
TABLE(zeGetEventExpProcAddrTable, DDI_TABLES)
TABLE(zeGetFabricEdgeExpProcAddrTable, DDI_TABLES)
TABLE(zeGetFabricVertexExpProcAddrTable, DDI_TABLES)
TABLE(zeGetImageProcAddrTable, DDI_TABLES)
TABLE(zeGetImageExpProcAddrTable, DDI_TABLES)
TABLE(zeGetKernelProcAddrTable, DDI_TABLES)
TABLE(zeGetKernelExpProcAddrTable, DDI_TABLES)
TABLE(zeGetModuleProcAddrTable, DDI_TABLES)
TABLE(zeGetModuleBuildLogProcAddrTable, DDI_TABLES)
TABLE(zeGetSamplerProcAddrTable, DDI_TABLES)

/* Likewise tools and system management. */
TABLE(zesGetDeviceProcAddrTable, DDI_TABLES)
TABLE(zesGetDiagnosticsProcAddrTable, DDI_TABLES)
TABLE(zesGetDriverProcAddrTable, DDI_TABLES)
TABLE(zesGetEngineProcAddrTable, DDI_TABLES)
TABLE(zesGetFabricPortProcAddrTable, DDI_TABLES)
TABLE(zesGetFanProcAddrTable, DDI_TABLES)
TABLE(zesGetFirmwareProcAddrTable, DDI_TABLES)
TABLE(zesGetFrequencyProcAddrTable, DDI_TABLES)
TABLE(zesGetLedProcAddrTable, DDI_TABLES)
TABLE(zesGetMemoryProcAddrTable, DDI_TABLES)
TABLE(zesGetPerformanceFactorProcAddrTable, DDI_TABLES)
TABLE(zesGetPowerProcAddrTable, DDI_TABLES)
TABLE(zesGetPsuProcAddrTable, DDI_TABLES)
TABLE(zesGetRasProcAddrTable, DDI_TABLES)
TABLE(zesGetSchedulerProcAddrTable, DDI_TABLES)
TABLE(zesGetStandbyProcAddrTable, DDI_TABLES)
TABLE(zesGetTemperatureProcAddrTable, DDI_TABLES)
TABLE(zetGetCommandListProcAddrTable, DDI_TABLES)
TABLE(zetGetContextProcAddrTable, DDI_TABLES)
TABLE(zetGetDebugProcAddrTable, DDI_TABLES)
TABLE(zetGetDeviceProcAddrTable, DDI_TABLES)
TABLE(zetGetKernelProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricGroupExpProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricGroupProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricQueryPoolProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricQueryProcAddrTable, DDI_TABLES)
TABLE(zetGetMetricStreamerProcAddrTable, DDI_TABLES)
TABLE(zetGetModuleProcAddrTable, DDI_TABLES)
TABLE(zetGetTracerExpProcAddrTable, DDI_TABLES)
