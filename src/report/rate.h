/* Rates of computing, in a unit that suits their size. */
#ifndef WEFT_REPORT_RATE_H
#define WEFT_REPORT_RATE_H

/* Room for the longest. */
typedef struct weft_rate {
    char text[32];
} weft_rate;

/* "812.3 TFLOP/s", "5.90 GFLOP/s". */
weft_rate weft_rate_text(double tflops);

#endif
