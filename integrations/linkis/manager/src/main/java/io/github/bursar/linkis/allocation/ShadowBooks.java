package io.github.bursar.linkis.allocation;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.ConfirmRequest;
import io.github.bursar.client.Explanation;
import io.github.bursar.client.Phase;
import io.github.bursar.linkis.clusters.AcrossClusterRule;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.linkis.manager.common.exception.RMWarnException;

/**
 * Keeps in Bursar what stock Linkis grants, and counts where the two differ. Stock's ticket is the
 * request id of the allocation, so this holds no state: it goes on after a restart. An engine is
 * only
 * measured, never stopped. What concerns one ticket is done in order, by one of a few threads with
 * bounded queues; what does not fit there is left out and counted.
 */
final class ShadowBooks implements AutoCloseable {
  private static final Duration ASK = Duration.ofSeconds(3);
  private static final Duration LEASE = Duration.ofHours(24);
  private static final int LANES = 4;
  private static final int QUEUE = 1000;

  private final BursarClient client;
  private final Duration reservationTtl;
  private final ShadowReport report = new ShadowReport();
  private final ThreadPoolExecutor[] lanes = new ThreadPoolExecutor[LANES];

  ShadowBooks(BursarClient client, Duration reservationTtl) {
    this.client = client.within(ASK);
    this.reservationTtl = reservationTtl;
    for (int i = 0; i < LANES; i++) {
      String name = "bursar-shadow-" + i;
      lanes[i] =
          new ThreadPoolExecutor(
              1,
              1,
              30,
              TimeUnit.SECONDS,
              new LinkedBlockingQueue<>(QUEUE),
              r -> {
                Thread t = new Thread(r, name);
                t.setDaemon(true);
                return t;
              });
      lanes[i].allowCoreThreadTimeOut(true);
    }
  }

  ShadowReport report() {
    return report;
  }

  /** Stock granted it. Its rule for tasks across clusters may be null. It is booked in any case. */
  void granted(String ticket, AllocateRequest.Builder asked, AcrossClusterRule rule) {
    run(
        ticket,
        () -> {
          AllocateRequest request = asked.requestId(ticket).reservationTtl(reservationTtl).build();
          Runnable counted = report::bothGrant;
          try {
            Optional<RMWarnException> broken = broken(rule);
            if (broken.isPresent()) {
              counted = () -> report.stockAloneGrants(request, broken.get().getMessage());
            }
          } catch (RuntimeException e) {
            counted = () -> report.notCompared(e.getMessage());
          }
          try {
            client.allocate(request);
            counted.run();
          } catch (BursarException e) {
            if (!e.refusal().isPresent()) {
              throw e;
            }
            report.stockAloneGrants(request, e.getMessage());
          }
        });
  }

  /** Stock refused it. Its rule for tasks across clusters may be null. */
  void refused(String reason, AllocateRequest.Builder asked, AcrossClusterRule rule) {
    run(
        String.valueOf(reason),
        () -> {
          AllocateRequest request = asked.build();
          Explanation said = broken(rule).isPresent() ? null : client.explain(request);
          if (said != null && said.verdict() == Explanation.Verdict.FITS) {
            report.bursarAloneGrants(request, reason);
          } else {
            report.bothRefuse();
          }
        });
  }

  private Optional<RMWarnException> broken(AcrossClusterRule rule) {
    return rule == null ? Optional.empty() : rule.broken(client);
  }

  /** It runs. */
  void used(String ticket, String address, int pid) {
    run(
        ticket,
        () -> {
          Allocation a = client.getByRequestId(ticket).orElse(null);
          if (a != null && a.state() == AllocationState.RESERVED) {
            ConfirmRequest.Builder c = ConfirmRequest.builder(a.id()).address(address).phase(Phase.READY);
            client.confirm((pid != 0 ? c.pid(pid) : c.lease(LEASE)).build());
          }
        });
  }

  /** It is gone. */
  void released(String ticket) {
    run(
        ticket,
        () -> {
          Allocation a = client.getByRequestId(ticket).orElse(null);
          if (a != null && !a.state().ended()) {
            client.release(a.id(), "linkis released it");
          }
        });
  }

  private void run(String key, Runnable step) {
    try {
      lanes[Math.floorMod(key.hashCode(), LANES)].execute(
          () -> {
            try {
              step.run();
            } catch (RuntimeException e) {
              report.notCompared(e.getMessage());
            }
          });
    } catch (RejectedExecutionException e) {
      report.notCompared("too much is compared already");
    }
  }

  @Override
  public void close() {
    for (ThreadPoolExecutor lane : lanes) {
      lane.shutdownNow();
    }
    report.close();
  }
}
