/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CMD_H
#define SONDE_VMM_CMD_H

/* Verbs of the command line; see formats/cli/cli.h for the convention. */
int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_hist(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_recover(int argc, char **argv);

#endif
