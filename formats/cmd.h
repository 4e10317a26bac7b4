/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CMD_H
#define SONDE_FORMATS_CMD_H

/* The verbs of this folder: sonde-events(1), sonde-report(1), sonde-leaks(1), sonde-timeline(1),
 * sonde-diff(1), sonde-replay(1), sonde-check(1), sonde-convert(1). argv[0] is the verb; exit status. */
int cmd_events(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_convert(int argc, char **argv);

#endif
