/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: figures of caches, for people and for programs. */
#define _POSIX_C_SOURCE 200809L

#include "info_cache.h"

#include <string.h>
#include <time.h>

#include "tool_accel.h"
#include "tool_text.h"

/* "2026-11-30 15:04:05", local time; "-" where there is none. */
static const char *time_text(uint64_t seconds, char *text, size_t room)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!seconds || t < 0 || !localtime_r(&t, &tm) || tm.tm_year > 9999 - 1900 ||
	    !strftime(text, room, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, room, "-");
	return text;
}

static const char *rate_text(const struct hmreg_cache_figures *f, char *text, size_t room)
{
	double all = (double)f->hits + (double)f->misses;

	if (all > 0)
		snprintf(text, room, "%.2f%%", 100 * (double)f->hits / all);
	else
		snprintf(text, room, "-");
	return text;
}

static bool any(const struct hmreg_cache_figures *f)
{
	return f->hits || f->misses || f->evictions || f->invalidations || f->unkept ||
	       f->entries || f->bytes;
}

static void print_figures(FILE *out, const char *domain, const char *iface,
			  const struct hmreg_cache_figures *f)
{
	char rate[32], bytes[40];

	fprintf(out, "%-14s %-10s %14llu %12llu %8s %10llu %13llu %10llu %9llu %12s", domain, iface,
		(unsigned long long)f->hits, (unsigned long long)f->misses,
		rate_text(f, rate, sizeof(rate)), (unsigned long long)f->evictions,
		(unsigned long long)f->invalidations, (unsigned long long)f->unkept,
		(unsigned long long)f->entries, tool_size_text(f->bytes, bytes, sizeof(bytes)));
}

static void print_row(FILE *out, const struct hmreg_cache_row *row)
{
	char since[40], bytes[40];
	int i;

	print_figures(out, row->domain, "all", &row->all);
	fprintf(out, "  %llu and %s, since %s\n", (unsigned long long)row->max_entries,
		tool_size_text(row->max_bytes, bytes, sizeof(bytes)),
		time_text(row->since, since, sizeof(since)));
	for (i = 0; i < HMREG_CACHE_IFACES; i++) {
		if (!any(&row->iface[i]))
			continue;
		print_figures(out, "", tool_iface_name((enum fi_hmem_iface)i), &row->iface[i]);
		fputc('\n', out);
	}
}

void info_cache_report(FILE *out, const struct info_cache *cache)
{
	char text[40];
	size_t i;

	fprintf(out, "process %llu%s, monitor %s, last change %s\n\n",
		(unsigned long long)cache->pid, cache->ended ? ", which has ended" : "",
		tool_or_dash(cache->monitor),
		time_text(cache->updated / UINT64_C(1000000000), text, sizeof(text)));
	fprintf(out, "%-14s %-10s %14s %12s %8s %10s %13s %10s %9s %12s  %s\n", "DOMAIN",
		"INTERFACE", "HITS", "MISSES", "HIT RATE", "EVICTIONS", "INVALIDATIONS", "UNKEPT",
		"ENTRIES", "BYTES", "LIMITS");
	for (i = 0; i < cache->count; i++)
		print_row(out, &cache->row[i]);
	if (!cache->count)
		fputs("no registration cache is open\n", out);
	if (cache->hidden)
		fprintf(out, "%llu more caches have no room in the file\n",
			(unsigned long long)cache->hidden);
}

/* ---- JSON ---- */

static void json_number(FILE *out, const char *name, uint64_t value, const char *end)
{
	fprintf(out, "\"%s\": %llu%s", name, (unsigned long long)value, end);
}

static void json_figures(FILE *out, const char *name, const struct hmreg_cache_figures *f)
{
	fprintf(out, "\"%s\": {", name);
	json_number(out, "hits", f->hits, ", ");
	json_number(out, "misses", f->misses, ", ");
	json_number(out, "evictions", f->evictions, ", ");
	json_number(out, "invalidations", f->invalidations, ", ");
	json_number(out, "unkept", f->unkept, ", ");
	json_number(out, "entries", f->entries, ", ");
	json_number(out, "bytes", f->bytes, "}");
}

static void json_row(FILE *out, const struct hmreg_cache_row *row)
{
	int i;

	fputs("\n  {", out);
	tool_json_member(out, "domain", row->domain);
	json_number(out, "since", row->since, ", ");
	json_number(out, "max_entries", row->max_entries, ", ");
	json_number(out, "max_bytes", row->max_bytes, ",\n   ");
	json_figures(out, "all", &row->all);
	fputs(",\n   \"interfaces\": {", out);
	for (i = 0; i < HMREG_CACHE_IFACES; i++) {
		fputs(i ? ",\n    " : "\n    ", out);
		json_figures(out, tool_iface_name((enum fi_hmem_iface)i), &row->iface[i]);
	}
	fputs("}}", out);
}

void info_cache_report_json(FILE *out, const struct info_cache *cache)
{
	size_t i;

	fputs("{\"tool\": \"hmreg-info\",\n ", out);
	json_number(out, "pid", cache->pid, ", ");
	fprintf(out, "\"ended\": %s, ", cache->ended ? "true" : "false");
	tool_json_member(out, "monitor", cache->monitor);
	json_number(out, "updated_ns", cache->updated, ", ");
	json_number(out, "hidden", cache->hidden, ",\n ");
	fputs("\"caches\": [", out);
	for (i = 0; i < cache->count; i++) {
		fputs(i ? "," : "", out);
		json_row(out, &cache->row[i]);
	}
	fputs("]}\n", out);
}
