#include "tests/conformance/harness.h"
static void smoke(struct conf *c)
{
	struct conf_end *a, *b;
	uint8_t *m = conf_alloc(c, 100), *s = conf_alloc(c, 100);
	conf_pair(c, NULL, &a, &b);
	struct conf_region *r = conf_reg(b, m, 100, CONF_ALL), *l = conf_reg(a, s, 100, CONF_ALL);
	memset(s, 7, 100);
	assert_ok(fi_write(a->ep, s, 100, l->desc, conf_addr(a, b), r->addr, conf_key(a, r), c));
	conf_done(a->tx, c);
	assert_memory_equal(m, s, 100);
	assert_refused(fi_write(a->ep, s, 100, l->desc, 77, r->addr, conf_key(a, r), c), -FI_EINVAL);
	assert_ok(fi_write(a->ep, s, 100, l->desc, 0, r->addr+1, conf_key(a, r), c));
	conf_failed(a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
}
static const struct conf_case cases[] = {CONF(smoke)};
int main(int argc, char **argv) { return conf_main(argc, argv, cases, count_of(cases)); }
