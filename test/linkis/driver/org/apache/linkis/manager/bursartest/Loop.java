package org.apache.linkis.manager.bursartest;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;

/**
 * A closed loop: each thread requests, uses, holds and releases one engine after the other. It counts what is
 * granted at the same time against a limit of memory. One that was refused tries again after 20 ms.
 */
final class Loop {
  private final Calls calls;
  private final Calls.Request each;
  private final int threads;
  private final int users;
  private final long seconds;
  private final long hold;
  private final long limit;
  private final AtomicLong live = new AtomicLong();
  private final AtomicLong peak = new AtomicLong();
  private final AtomicLong granted = new AtomicLong();
  private final AtomicLong over = new AtomicLong();
  private final AtomicLong refused = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final Map<String, AtomicLong> said = new ConcurrentHashMap<>();
  private final List<long[]> cycles = Collections.synchronizedList(new ArrayList<>());
  /** From when to when engines were held, at least: System.nanoTime, which is the same in all processes. */
  private final List<long[]> held = Collections.synchronizedList(new ArrayList<>());
  private final List<long[]> refusals = Collections.synchronizedList(new ArrayList<>());

  Loop(Calls calls, Calls.Request each, int threads, int users, long seconds, long hold, long limit) {
    this.calls = calls;
    this.each = each;
    this.threads = threads;
    this.users = users;
    this.seconds = seconds;
    this.hold = hold;
    this.limit = limit;
  }

  Map<String, Object> run() throws Exception {
    long begin = System.nanoTime();
    long end = begin + seconds * 1_000_000_000L;
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      final String user = "u" + i % users;
      all.add(pool.submit(() -> {
        while (System.nanoTime() < end) {
          cycle(user);
        }
        return null;
      }));
    }
    for (Future<?> one : all) {
      one.get();
    }
    pool.shutdown();
    double took = (System.nanoTime() - begin) / 1e9;
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("cycles", cycles.size());
    result.put("perSecond", cycles.size() / took);
    result.put("granted", granted.get());
    result.put("over", over.get());
    result.put("refused", refused.get());
    result.put("failed", failed.get());
    result.put("peak", peak.get());
    result.put("request", figures(cycles, 0));
    result.put("used", figures(cycles, 1));
    result.put("release", figures(cycles, 2));
    result.put("refusal", figures(refusals, 0));
    result.put("held", held);
    Map<String, Long> texts = new LinkedHashMap<>();
    said.forEach((text, count) -> texts.put(text, count.get()));
    result.put("said", texts);
    return result;
  }

  private void cycle(String user) throws InterruptedException {
    Calls.Request r = new Calls.Request();
    r.user = user;
    r.ecm = each.ecm;
    r.memory = each.memory;
    r.cores = each.cores;
    r.wait = each.wait;
    String ticket = null;
    long holds = 0;
    try {
      long began = System.nanoTime();
      ResultResource answer = calls.request(r);
      long answered = System.nanoTime();
      if (!(answer instanceof AvailableResource)) {
        refused.incrementAndGet();
        refusals.add(new long[] {answered - began});
        note(String.valueOf(((NotEnoughResource) answer).reason()));
        Thread.sleep(20);
        return;
      }
      ticket = ((AvailableResource) answer).ticketId();
      granted.incrementAndGet();
      holds = answered;
      long now = live.addAndGet(r.memory);
      peak.accumulateAndGet(now, Math::max);
      if (now > limit) {
        over.incrementAndGet();
      }
      long using = System.nanoTime();
      calls.used(r, ticket);
      long used = System.nanoTime();
      if (hold > 0) {
        Thread.sleep(hold);
      }
      live.addAndGet(-r.memory);
      String ended = ticket;
      ticket = null;
      long ending = System.nanoTime();
      held.add(new long[] {holds, ending});
      calls.release(r, ended);
      cycles.add(new long[] {answered - began, used - using, System.nanoTime() - ending});
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      failed.incrementAndGet();
      note(String.valueOf(e));
      if (ticket != null) { // granted, and then it could not be used
        live.addAndGet(-r.memory);
        held.add(new long[] {holds, System.nanoTime()});
        calls.release(r, ticket);
      }
      Thread.sleep(20);
    }
  }

  private void note(String text) {
    String plain = text.replaceAll("[0-9a-f]{8}-[0-9a-f-]{20,}", "ID").replaceAll("[0-9.]+", "#");
    said.computeIfAbsent(plain.length() > 300 ? plain.substring(0, 300) : plain, k -> new AtomicLong()).incrementAndGet();
  }

  /** Milliseconds. */
  private static Map<String, Double> figures(List<long[]> list, int which) {
    Map<String, Double> figures = new LinkedHashMap<>();
    long[] sorted = list.stream().mapToLong(x -> x[which]).sorted().toArray();
    if (sorted.length > 0) {
      figures.put("p50", sorted[sorted.length / 2] / 1e6);
      figures.put("p99", sorted[(int) (sorted.length * 0.99)] / 1e6);
      figures.put("max", sorted[sorted.length - 1] / 1e6);
      figures.put("mean", Arrays.stream(sorted).average().orElse(0) / 1e6);
    }
    return figures;
  }
}
