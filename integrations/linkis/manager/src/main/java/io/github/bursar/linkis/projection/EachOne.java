package io.github.bursar.linkis.projection;

import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Does something for each of many, so that one that fails does not keep the others from it. If
 * failures take long nobody answers: then the pass ends with the last of them. Failures are said
 * once, until a pass has none. Not safe for concurrent use.
 */
final class EachOne {
  /** How long all that fail in a pass may take together. */
  private static final Duration PATIENCE = Duration.ofSeconds(3);
  private static final Logger log = LoggerFactory.getLogger(EachOne.class);

  private final String what;
  private boolean said;
  private int failed;
  private long failedNanos;
  private String firstFailure;

  /**
   * @param what what those that fail miss, for the log
   */
  EachOne(String what) {
    this.what = what;
  }

  /** Begins a pass. */
  void begin() {
    failed = 0;
    failedNanos = 0;
    firstFailure = null;
  }

  /** What is done for one of them. */
  interface Action {
    void run() throws Exception;
  }

  /** Does it for one of them. */
  void run(String name, Action action) {
    long start = System.nanoTime();
    try {
      action.run();
    } catch (Exception e) {
      if (failed++ == 0) {
        firstFailure = name + ": " + e;
      }
      failedNanos += System.nanoTime() - start;
      if (failedNanos > PATIENCE.toNanos()) {
        throw new IllegalStateException(name + ": " + e, e);
      }
    }
  }

  /** Ends a pass. */
  void end() {
    if (failed == 0) {
      said = false;
    } else if (said) {
      log.debug("{}: {}, such as {}", what, failed, firstFailure);
    } else {
      said = true;
      log.warn("{}: {}, such as {}; they are tried again", what, failed, firstFailure);
    }
  }
}
