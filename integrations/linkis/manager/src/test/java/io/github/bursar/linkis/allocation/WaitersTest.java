package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class WaitersTest {
  @Test
  void halfOfThePoolWaitsAtMost() {
    Waiters waiters = new Waiters(4); // two in all, and one of each user
    waiters.<Long>waiting("a", 5, a -> {
      assertEquals(5L, a);
      assertEquals(0L, waiters.<Long>waiting("a", 5, n -> n).longValue());
      waiters.<Long>waiting("b", 5, b -> {
        assertEquals(5L, b);
        assertEquals(0L, waiters.<Long>waiting("c", 5, n -> n).longValue());
        return b;
      });
      assertEquals(5L, waiters.<Long>waiting("c", 5, n -> n).longValue());
      return a;
    });
    assertEquals(5L, waiters.<Long>waiting("a", 5, n -> n).longValue());
  }
}
