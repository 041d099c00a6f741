/* SPDX-License-Identifier: Apache-2.0 */
/* Units that suit the size of what is printed. */
#include <stdio.h>

#include <weft/report.h>

weft_unit weft_rate_unit(double tflops) {
    static const weft_unit units[] = {{1, "TFLOP/s"}, {1e3, "GFLOP/s"}, {1e6, "MFLOP/s"}};
    size_t i = 0;
    while (tflops > 0 && tflops * units[i].factor < 0.9995 && i + 1 < sizeof units / sizeof *units) {
        i++; /* less would be 1.000 when rounded */
    }
    return units[i];
}

weft_unit weft_bytes_unit(double bytes) {
    static const weft_unit units[] = {{1e-12, "TB"}, {1e-9, "GB"}, {1e-6, "MB"}, {1e-3, "kB"}, {1, "bytes"}};
    size_t i = bytes > 0 ? 0 : 1; /* nothing is 0 GB */
    while (bytes > 0 && bytes * units[i].factor < 0.9995 && i + 1 < sizeof units / sizeof *units) {
        i++;
    }
    return units[i];
}

weft_rate weft_rate_text(double tflops) {
    const weft_unit unit = weft_rate_unit(tflops);
    const double rate = tflops * unit.factor;
    weft_rate text;
    snprintf(text.text, sizeof text.text, "%.*f %s", rate < 10 ? 2 : 1, rate, unit.name);
    return text;
}

weft_rate weft_traffic_text(double bytes) {
    const weft_unit unit = weft_bytes_unit(bytes);
    const double number = bytes * unit.factor;
    weft_rate text;
    snprintf(text.text, sizeof text.text, "%.*f %s",
             unit.factor == 1 ? 0
             : number < 10    ? 3
             : number < 100   ? 2
                              : 1,
             number, unit.name);
    return text;
}

weft_rate weft_memory_text(double bytes) {
    static const weft_unit units[] = {{0x1p-30, "GiB"}, {0x1p-20, "MiB"}, {0x1p-10, "KiB"}, {1, "bytes"}};
    size_t i = 0;
    while (bytes * units[i].factor < 1 && i + 1 < sizeof units / sizeof *units) {
        i++;
    }
    weft_rate text;
    snprintf(text.text, sizeof text.text, "%.4g %s", bytes * units[i].factor, units[i].name);
    return text;
}
