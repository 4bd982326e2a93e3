package io.github.bursar.linkis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class RepeatingTest {
  @Test
  void itRunsUntilItIsStoppedAndThenDoesTheLast() throws Exception {
    CountDownLatch three = new CountDownLatch(3);
    AtomicInteger last = new AtomicInteger();
    Repeating r = new Repeating("test", Duration.ofMillis(1), three::countDown, last::incrementAndGet);
    assertFalse(r.isRunning());
    r.start();
    r.start();
    assertTrue(three.await(10, TimeUnit.SECONDS));
    assertTrue(r.isRunning());
    r.stop();
    r.stop();
    assertFalse(r.isRunning());
    assertEquals(1, last.get());
  }

  @Test
  void aRunThatThrowsIsNotTheLast() throws Exception {
    CountDownLatch three = new CountDownLatch(3);
    Repeating r =
        new Repeating(
            "test",
            Duration.ofMillis(1),
            () -> {
              three.countDown();
              throw new NoSuchMethodError("of another Linkis");
            });
    r.start();
    try {
      assertTrue(three.await(10, TimeUnit.SECONDS));
    } finally {
      r.stop();
    }
  }
}
