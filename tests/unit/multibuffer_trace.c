/* Tests whether the path through the code depends on a secret: single-steps two calls whose secrets differ in every bit
 * and compares a hash of every instruction's address. Prints how many instructions a call had and "same" or
 * "different"; "control" is a function that does branch on its secret. Prints "forbidden" if processes may not be
 * traced. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multibuffer.h"

enum { COUNT = 3 };

static uint8_t secret[32], point[32 * COUNT], key[16 * COUNT], nonce[12 * COUNT], exporter[32 * COUNT];
static uint8_t public_key[32], flags[COUNT], suite[10], context[65];
static volatile int counter;
static int level; /* the instruction set */

static void control(void)
{
    if (secret[0] & 1)
        counter++;
}

static void open_messages(void)
{
    if (tacit_hpke_open(level, secret, 32, public_key, 32, suite, 10, context, 65, 16, COUNT, point, sizeof point, key,
                        sizeof key, nonce, sizeof nonce, exporter, sizeof exporter, flags, sizeof flags))
        abort();
}

static unsigned long long steps;

static unsigned long long path(void (*function)(void), int byte)
{
    pid_t child = fork();
    if (!child) {
        memset(secret, byte, sizeof secret);
        function(); /* the first call binds symbols and pages everything in */
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(3);
        raise(SIGSTOP);
        function();
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    unsigned long long hash = 14695981039346656037u;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
        puts("forbidden");
        exit(0);
    }
    for (steps = 0;; steps++) {
        struct user_regs_struct registers;
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        waitpid(child, &status, 0);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            break;
        ptrace(PTRACE_GETREGS, child, NULL, &registers);
        hash = (hash ^ registers.rip) * 1099511628211u;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return hash;
}

static void compare(const char *name, void (*function)(void))
{
    unsigned long long zeros = path(function, 0), count = steps, ones = path(function, 0xff);
    printf("%s %llu %s\n", name, count, zeros == ones && steps == count ? "same" : "different");
}

int main(int count, char **arguments)
{
    level = count == 2 ? atoi(arguments[1]) : TACIT_LEVELS;
    if (!tacit_multibuffer_usable(level)) {
        puts("absent");
        return 0;
    }
    for (size_t i = 0; i < sizeof point; i++)
        point[i] = (uint8_t)(i * 37 + 5);
    memset(point + 32, 0, 32);
    public_key[0] = 9;
    setvbuf(stdout, NULL, _IONBF, 0);
    compare("control", control);
    compare("open", open_messages);
    return 0;
}
