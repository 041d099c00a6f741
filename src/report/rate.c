#include <weft/report.h>

#include <stdio.h>

weft_rate weft_rate_text(double tflops) {
    static const char *const units[] = {"TFLOP/s", "GFLOP/s", "MFLOP/s"};
    enum { LAST = sizeof units / sizeof *units - 1 };
    weft_rate rate;
    int unit = 0;
    while (tflops > 0 && tflops < 0.9995 && unit < LAST) { /* less would be 1.000 when rounded */
        tflops *= 1e3;
        unit++;
    }
    snprintf(rate.text, sizeof rate.text, "%.*f %s", tflops < 10 ? 2 : 1, tflops, units[unit]);
    return rate;
}
