/* Gillespie's direct method for SIR epidemics in plain C: the loop of noisewise/simulators/_epidemic.py, draw for draw. */
#include <math.h>
#include <stdint.h>

#define GOLDEN 0x9E3779B97F4A7C15ULL

typedef struct { uint64_t a, b, c, d; } generator;

static inline uint64_t rotated(uint64_t word, int left) { return (word << left) | (word >> (64 - left)); }

static uint64_t mix(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
}

static generator seeded(const uint64_t *words, int64_t num_words, uint64_t index)
{
    uint64_t total = GOLDEN;
    for (int64_t k = 0; k < num_words; k++)
        total = mix((total ^ words[k]) + GOLDEN);
    total = mix((total ^ index) + GOLDEN);
    generator rng = {mix(total + GOLDEN), mix(total + 2 * GOLDEN), mix(total + 3 * GOLDEN), mix(total + 4 * GOLDEN)};
    return rng;
}

static inline double uniform(generator *rng)
{
    uint64_t word = rotated(rng->a + rng->d, 23) + rng->a, shifted = rng->b << 17;
    rng->c ^= rng->a;
    rng->d ^= rng->b;
    rng->b ^= rng->c;
    rng->a ^= rng->d;
    rng->c ^= shifted;
    rng->d = rotated(rng->d, 45);
    return ((double)(int64_t)(word >> 12) + 0.5) * 0x1p-52;
}

static int64_t epidemic(generator rng, double b, double gamma, double s, double i, const double *times, int64_t num_times,
                        double *infected)
{
    int64_t seen = 0, events = 0;
    double t = 0.0;
    if (times[0] == 0.0)
        infected[seen++] = i;
    while (seen < num_times) {
        double infection = b * s;
        double following = t - log(uniform(&rng)) / (i * (infection + gamma));
        while (following > times[seen]) {
            infected[seen++] = i;
            if (seen == num_times)
                return events;
        }
        t = following;
        double change = uniform(&rng) * (infection + gamma) < infection ? 1.0 : 0.0;
        s -= change;
        i += change + change - 1.0;
        events++;
    }
    return events;
}

/* Epidemics 0, ..., num - 1 into infected (num, num_times); returns how many events they had. */
int64_t epidemics(const uint64_t *words, int64_t num_words, int64_t num, double beta, double gamma, double population,
                  double initial_infected, const double *times, int64_t num_times, double *infected)
{
    int64_t events = 0;
    for (int64_t row = 0; row < num; row++)
        events += epidemic(seeded(words, num_words, (uint64_t)row), beta / population, gamma, population - initial_infected,
                           initial_infected, times, num_times, infected + row * num_times);
    return events;
}
