/* Bits and 16-bit lanes of blocks of positions. */
#ifndef MOORAGE_LANES_H
#define MOORAGE_LANES_H

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "dispatch.h"

#define MR_LANES 64 /* positions per block, and blocks per superblock */

/* Number of bits that are set (population count). Compilers replace this by an instruction where there is one. */
MR_INLINED int32_t mr_bits(uint64_t w)
{
    w -= (w >> 1) & 0x5555555555555555ull;
    w = (w & 0x3333333333333333ull) + ((w >> 2) & 0x3333333333333333ull);
    return (int32_t)((((w + (w >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull) >> 56);
}

/* The largest of `max` and the values. */
MR_INLINED int16_t mr_largest(const int16_t *restrict values, int32_t n, int16_t max)
{
    for (int32_t i = 0; i < n; i++) max = values[i] > max ? values[i] : max;
    return max;
}

/* Place of the k-th bit that is set, counted from 0. */
MR_INLINED int32_t mr_nth_bit_portable(uint64_t w, int32_t k)
{
    int32_t place = 0;
    for (int32_t half = 32; half; half >>= 1) {
        int32_t low = mr_bits(w & ((1ull << half) - 1));
        int up = k >= low;
        k -= up ? low : 0;
        place += up ? half : 0;
        w >>= up ? half : 0;
    }
    return place;
}

MR_INLINED int32_t mr_nth_bit(uint64_t w, int32_t k)
{
#ifdef MR_HAS_BMI2
    if (MR_HAS_BMI2) {
        uint64_t bit = 1ull << k;
        __asm__("pdep %2, %1, %0" : "=r"(bit) : "r"(bit), "r"(w));
        return __builtin_ctzll(bit);
    }
#endif
    return mr_nth_bit_portable(w, k);
}

/* The bits of `w` at the places where `mask` has bits, side by side; `w` is part of `mask`, which is not 0. */
MR_INLINED uint64_t mr_extract_portable(uint64_t w, uint64_t mask)
{
    uint64_t out = 0;
    for (; w; w &= w - 1) out |= 1ull << mr_bits(mask & ((w & -w) - 1));
    return out;
}

MR_INLINED uint64_t mr_extract(uint64_t w, uint64_t mask)
{
    const uint64_t run = mask >> __builtin_ctzll(mask);
    if (!(run & (run + 1))) return w >> __builtin_ctzll(mask); /* the bits of the mask are side by side */
#ifdef MR_HAS_BMI2
    if (MR_HAS_BMI2) {
        __asm__("pext %2, %1, %0" : "=r"(w) : "r"(w), "r"(mask));
        return w;
    }
#endif
    return mr_extract_portable(w, mask);
}

/* 64 bytes of 0 or 1, as bits. A multiplication collects eight of them. */
MR_INLINED uint64_t mr_bits_of(const uint8_t *bytes)
{
    uint64_t word = 0, eight;
    for (int32_t i = 0; i < MR_LANES; i += 8) {
        memcpy(&eight, bytes + i, sizeof eight);
        word |= eight * 0x0102040810204080ull >> 56 << i;
    }
    return word;
}

/* The lanes of a block that hold a value, as bits. */
MR_INLINED uint64_t mr_equal_lanes(const int16_t *restrict lanes, int16_t value)
{
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi16(value);
    uint64_t word = 0;
    for (int32_t i = 0; i < MR_LANES; i += 16) {
        const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)(lanes + i)), wanted);
        const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)(lanes + i + 8)), wanted);
        word |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << i;
    }
    return word;
#else
    uint8_t equal[MR_LANES];
    for (int32_t lane = 0; lane < MR_LANES; lane++) equal[lane] = lanes[lane] == value;
    return mr_bits_of(equal);
#endif
}

#endif
