/* SPDX-License-Identifier: BSD-2-Clause */
/* What the params_*.c files share: the table and the conversion of a text by its type. */
#ifndef HM_BASE_PARAMS_PRIV_H
#define HM_BASE_PARAMS_PRIV_H

#include "core/base/params.h"

struct hm_param_def {
	const char *name;
	enum fi_param_type type;
	const char *initial; /* the default as text; NULL: a string without default */
	const char *help;
};

/* The member in use is the one that fits the parameter's type. */
union hm_param_value {
	const char *str;
	int num;
	bool on;
	size_t size;
};

extern const struct hm_param_def hm_param_table[HM_PARAM_COUNT];

/* A string value points to text itself. False: text is none, and out is unchanged. */
bool hm_param_parse(enum fi_param_type type, const char *text, union hm_param_value *out);

/* For messages: what a text of that type has to be. */
const char *hm_param_expected(enum fi_param_type type);

#endif
