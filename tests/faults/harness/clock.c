/* Shifts the wall clock of a process, and no other clock: LD_PRELOAD this, and FAKETIME_TIMESTAMP_FILE names a file with
   the seconds to add ("+3600"), which is read again ten times a second.  What libfaketime does, as far as we need it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double shift(void) {
    static double seconds = 0;
    static long long read_at = 0;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    long long tenth = now.tv_sec * 10LL + now.tv_nsec / 100000000;
    if (tenth != read_at) {
        read_at = tenth;
        const char *name = getenv("FAKETIME_TIMESTAMP_FILE");
        FILE *file = name ? fopen(name, "r") : NULL;
        if (file) {
            double found;
            if (fscanf(file, "%lf", &found) == 1) seconds = found;
            fclose(file);
        }
    }
    return seconds;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, which, at);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += (time_t)shift();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
