package io.github.bursar.linkis.allocation;

import io.github.bursar.client.AllocateRequest;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import javax.management.JMException;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts and logs where stock Linkis and Bursar differ; also over JMX, as
 * io.github.bursar:type=Shadow.
 */
public final class ShadowReport implements ShadowReportMXBean, AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger("io.github.bursar.linkis.shadow");
  private static final String NAME = "io.github.bursar:type=Shadow";
  private static final int EACH = 100;
  private static final int LONGEST = 1000;
  private static final long QUIET = TimeUnit.SECONDS.toNanos(10);

  private final LongAdder bothGrant = new LongAdder();
  private final LongAdder bothRefuse = new LongAdder();
  private final LongAdder stockAloneGrants = new LongAdder();
  private final LongAdder bursarAloneGrants = new LongAdder();
  private final LongAdder notCompared = new LongAdder();
  private final AtomicLong notComparedLogged = new AtomicLong(System.nanoTime() - 2 * QUIET);
  private boolean published;

  void bothGrant() {
    bothGrant.increment();
    summary();
  }

  void bothRefuse() {
    bothRefuse.increment();
    summary();
  }

  void stockAloneGrants(AllocateRequest request, String bursar) {
    stockAloneGrants.increment();
    log.warn("stock grants, Bursar would not: {} {}: {}", shown(request.labels()), request.resource(), shown(bursar));
    summary();
  }

  void bursarAloneGrants(AllocateRequest request, String stock) {
    bursarAloneGrants.increment();
    log.warn("stock refuses, Bursar would grant: {} {}: {}", shown(request.labels()), request.resource(), shown(stock));
    summary();
  }

  void notCompared(String why) {
    notCompared.increment();
    long now = System.nanoTime();
    long last = notComparedLogged.get();
    if (now - last > QUIET && notComparedLogged.compareAndSet(last, now)) {
      log.warn("not compared, {} so far: {}", getNotCompared(), shown(why));
    }
  }

  /** What users and servers say, as one line. */
  static String shown(Object said) {
    String text = String.valueOf(said);
    return (text.length() <= LONGEST ? text : text.substring(0, LONGEST) + "…").replaceAll("[\\p{Cc}\\p{Cf}\\u2028\\u2029]", "?");
  }

  private void summary() {
    if (compared() % EACH == 0) {
      log.info("{}", this);
    }
  }

  private long compared() {
    return getBothGrant() + getBothRefuse() + getStockAloneGrants() + getBursarAloneGrants();
  }

  @Override
  public long getBothGrant() {
    return bothGrant.sum();
  }

  @Override
  public long getBothRefuse() {
    return bothRefuse.sum();
  }

  @Override
  public long getStockAloneGrants() {
    return stockAloneGrants.sum();
  }

  @Override
  public long getBursarAloneGrants() {
    return bursarAloneGrants.sum();
  }

  @Override
  public long getNotCompared() {
    return notCompared.sum();
  }

  void publish() {
    try {
      ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName(NAME));
      published = true;
    } catch (JMException e) {
      log.warn("no {} over JMX", NAME, e);
    }
  }

  @Override
  public void close() {
    log.info("{}", this);
    if (published) {
      try {
        ManagementFactory.getPlatformMBeanServer().unregisterMBean(new ObjectName(NAME));
      } catch (JMException e) {
        log.debug("{}", NAME, e);
      }
    }
  }

  @Override
  public String toString() {
    return "of " + compared() + " requests stock and Bursar grant " + getBothGrant() + " and refuse " + getBothRefuse()
        + "; stock alone grants " + getStockAloneGrants() + ", Bursar alone " + getBursarAloneGrants()
        + "; not compared " + getNotCompared();
  }
}
