/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef STATICKEYS_H
#define STATICKEYS_H

#include <linux/init.h>
#include <linux/types.h>

struct seq_file;

/* keys.c */
void __init keys_init(void);
void keys_exit(void);
int keys_command(const char *key, const char *verb);
void keys_show(struct seq_file *out);
void keys_show_init(struct seq_file *out);

/* insns.c */
int insns_probe(const char *place, bool probe);
void insns_show(struct seq_file *out);
void insns_exit(void);

/* calls.c */
void calls_show(struct seq_file *out);

/* race.c */
int race_run(const char *what, unsigned int rounds);
void race_show(struct seq_file *out);

#endif
