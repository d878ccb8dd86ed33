/* A machine under one process, for tests: LD_PRELOAD this.  MACHINE names a folder with files that the test writes while
   the process runs.  They are looked at ten times a second; one that is not there changes nothing.

     wall     seconds to add to the time of day ("+3600")
     asleep   seconds for which CLOCK_MONOTONIC stood still, as in a suspend; CLOCK_BOOTTIME went on.  Sleeps and timed
              waits of threads count by the clock that stood still.  A process that is stopped meanwhile (SIGSTOP) finds
              what a suspended machine finds, but for waits that were due in the kernel: those end early
     silent   no name server answers: a look-up of a name waits until the file is gone, and fails after 30 s
     slow     seconds that a sync of a file takes

   Names that end in .test are those of 127.0.0.1.  The file "met" gets a byte for each look-up and each sync that waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LOOKUP_MS 30000
#define STEP_MS 50
#define UPTIME_S 1000000000 /* what is later is a time of day */

typedef int (*clock_get)(clockid_t, struct timespec *);

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static double wall_s, asleep_s;

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

static int named(const char *name, char path[4096]) {
    const char *folder = getenv("MACHINE");
    return folder && snprintf(path, 4096, "%s/%s", folder, name) < 4096;
}

static double said(const char *name, double otherwise) {
    char path[4096];
    double found = otherwise;
    FILE *file = named(name, path) ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%lf", &found) != 1) found = otherwise;
        fclose(file);
    }
    return found;
}

static void met(void) {
    char path[4096];
    int file = named("met", path) ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        if (write(file, ".", 1) < 0) perror("met");
        close(file);
    }
}

static int there(const char *name) {
    char path[4096];
    return named(name, path) && access(path, F_OK) == 0;
}

static clock_get real_clock(void) {
    static clock_get real;
    if (!real) real = (clock_get)next("clock_gettime");
    return real;
}

/* Under a lock: a thread that reads a clock while another reads the files must not see the shift of before. */
static void shifts(double *wall, double *asleep) {
    static long long read_at = -1;
    struct timespec now;
    real_clock()(CLOCK_MONOTONIC, &now);
    long long tenth = now.tv_sec * 10LL + now.tv_nsec / 100000000;
    pthread_mutex_lock(&reading);
    if (tenth != read_at) {
        wall_s = said("wall", wall_s);
        asleep_s = said("asleep", asleep_s);
        read_at = tenth;
    }
    *wall = wall_s;
    *asleep = asleep_s;
    pthread_mutex_unlock(&reading);
}

static void add(struct timespec *at, double seconds) {
    long long nanoseconds = at->tv_sec * 1000000000LL + at->tv_nsec + (long long)(seconds * 1e9);
    at->tv_sec = nanoseconds / 1000000000;
    at->tv_nsec = nanoseconds % 1000000000;
}

static int stands_still(clockid_t which) {
    return which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_RAW || which == CLOCK_MONOTONIC_COARSE;
}

static int shifted_clock(clockid_t which, struct timespec *at) {
    double wall, asleep;
    int failed = real_clock()(which, at);
    if (failed) return failed;
    shifts(&wall, &asleep);
    if (stands_still(which)) add(at, -asleep);
    if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) add(at, wall);
    return 0;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    return shifted_clock(which, at);
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    shifted_clock(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    shifted_clock(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* libev reads its clock like this. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int n = 0; n < 6; n++) given[n] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_clock_gettime) return shifted_clock((clockid_t)given[0], (struct timespec *)given[1]);
    if (!real) real = (long (*)(long, ...))next("syscall");
    return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

/* The kernel's clock did not stand still: what threads wait for by ours is due later by that one. */
static struct timespec in_kernel(const struct timespec *until) {
    struct timespec shifted = *until;
    double wall, asleep;
    shifts(&wall, &asleep);
    add(&shifted, asleep);
    return shifted;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t which, const struct timespec *restrict until) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real) real = (int (*)(sem_t *, clockid_t, const struct timespec *))next("sem_clockwait");
    struct timespec shifted = stands_still(which) ? in_kernel(until) : *until;
    return real(semaphore, which, &shifted);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) {
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* not the one of LinuxThreads */
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))(
            found ? found : next("pthread_cond_timedwait"));
    }
    struct timespec shifted = until->tv_sec < UPTIME_S ? in_kernel(until) : *until;
    return real(condition, mutex, &shifted);
}

int clock_nanosleep(clockid_t which, int flags, const struct timespec *until, struct timespec *rest) {
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!real) real = (int (*)(clockid_t, int, const struct timespec *, struct timespec *))next("clock_nanosleep");
    struct timespec shifted = (flags & TIMER_ABSTIME) && stands_still(which) ? in_kernel(until) : *until;
    return real(which, flags, &shifted, rest);
}

int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found) {
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))next("getaddrinfo");
    struct addrinfo numeric = {0};
    if (hints) numeric = *hints;
    if (!node || numeric.ai_flags & AI_NUMERICHOST) return real(node, service, hints, found);
    numeric.ai_flags |= AI_NUMERICHOST;
    if (real(node, service, &numeric, found) == 0) return 0;
    if (there("silent")) met();
    for (int waited = 0; there("silent"); waited += STEP_MS) {
        if (waited >= LOOKUP_MS) return EAI_AGAIN;
        poll(NULL, 0, STEP_MS);
    }
    size_t length = strlen(node);
    if (length > 5 && !strcmp(node + length - 5, ".test")) return real("127.0.0.1", service, hints, found);
    return real(node, service, hints, found);
}

static void wait_for_disk(void) {
    double seconds = said("slow", 0);
    if (seconds > 0) {
        met();
        poll(NULL, 0, (int)(seconds * 1000));
    }
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))next("fdatasync");
    wait_for_disk();
    return real(file);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))next("fsync");
    wait_for_disk();
    return real(file);
}
