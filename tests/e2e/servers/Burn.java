// SPDX-License-Identifier: Apache-2.0
/** Java that is not started for profilers: its time is in code that the JVM has written. */
public class Burn {
    static double work() {
        double sum = 0;
        for (int i = 1; i < 1000000; i++) {
            sum += Math.sqrt(i);
        }
        return sum;
    }

    public static void main(String[] words) {
        double sum = work();
        System.out.println("ready");
        while (sum > 0) {
            sum = work();
        }
    }
}
