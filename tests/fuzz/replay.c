/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stands in for libFuzzer where it is not to be had: runs a target over files, or the files of
 * folders, given as arguments.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/input.h"

static unsigned done;

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	size_t size;

	if (!file) {
		perror(path);
		return 1;
	}
	data = malloc(1 << 20);
	PROMISE(data);
	size = fread(data, 1, 1 << 20, file);
	fclose(file);
	/* exactly as long as the input, so that reading past it shows */
	data = realloc(data, size ? size : 1);
	PROMISE(data);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	done++;
	return 0;
}

static int run_path(const char *path)
{
	struct stat st;
	struct dirent *entry;
	int failed = 0;
	DIR *dir;

	if (stat(path, &st) != 0) {
		perror(path);
		return 1;
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path);
	dir = opendir(path);
	if (!dir) {
		perror(path);
		return 1;
	}
	while ((entry = readdir(dir)) != NULL) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		failed |= run_path(name);
	}
	closedir(dir);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		failed |= run_path(argv[i]);
	printf("%u inputs\n", done);
	return failed || !done;
}
