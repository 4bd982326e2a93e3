package io.github.bursar.linkis.quota;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.Quota;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.quota.ConfigurationRow.Scope;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;

class QuotaRulesTest {
  private static final String[] KEYS = {
    QuotaRules.MEMORY, QuotaRules.CORES, QuotaRules.INSTANCES, QuotaRules.YARN_MEMORY, QuotaRules.YARN_CORES
  };

  static Map<String, String> builtIn() {
    Map<String, String> m = new HashMap<>();
    m.put(QuotaRules.MEMORY, "20g");
    m.put(QuotaRules.CORES, "10");
    m.put(QuotaRules.INSTANCES, "10");
    m.put(QuotaRules.YARN_MEMORY, "450g");
    m.put(QuotaRules.YARN_CORES, "150");
    return m;
  }

  private static ConfigurationRow row(String scope, String key, String value, String defaultValue) {
    return new ConfigurationRow(Scope.parse(scope).get(), key, value, defaultValue);
  }

  private static String rule(List<Quota> rules, String scope) {
    for (Quota q : rules) {
      Map<String, String> s = q.selector();
      if (scope.equals(s.get("user") + "-" + s.get("creator") + "," + s.get("engineType") + "-" + s.get("engineVersion"))) {
        return q.limit().memoryBytes().getAsLong() / (1L << 30) + "g " + q.limit().cpuMillis().getAsLong() + "m "
            + q.limit().instances().getAsLong() + " yarn " + q.limit().external().get(0).amount().memoryBytes().getAsLong() / (1L << 30)
            + "g " + q.limit().external().get(0).amount().cpuMillis().getAsLong() + "m";
      }
    }
    return "none";
  }

  @Test
  void withoutConfigurationEachCombinationHasWhatIsBuiltIn() {
    List<Quota> rules = new QuotaRules(Collections.emptyList(), builtIn(), 1000).rules();
    assertEquals(1, rules.size());
    assertEquals("20g 10000m 10 yarn 450g 150000m", rule(rules, "*-*,*-*"));
  }

  @Test
  void aUsersValueForAnEngineCountsThereAndNowhereElse() {
    List<Quota> rules =
        new QuotaRules(
                List.of(
                    row("*-*,*-*", QuotaRules.MEMORY, "", "30G"),
                    row("*-*,spark-3.2.1", QuotaRules.INSTANCES, "", "7"),
                    row("alice-IDE,spark-3.2.1", QuotaRules.INSTANCES, "3", "7")),
                builtIn(),
                500)
            .rules();
    assertEquals("30g 5000m 10 yarn 450g 150000m", rule(rules, "*-*,*-*"), "a core is 500 here, a vcore always 1000");
    assertEquals("30g 5000m 7 yarn 450g 150000m", rule(rules, "*-*,spark-3.2.1"));
    assertEquals("30g 5000m 3 yarn 450g 150000m", rule(rules, "alice-IDE,spark-3.2.1"));
    assertEquals(3, rules.size());
  }

  @Test
  void aValueThatIsNoNumberIsSaidAndPassedOver() {
    QuotaRules made =
        new QuotaRules(
            List.of(row("*-*,*-*", QuotaRules.MEMORY, "12Q", "30G"), row("alice-*,*-*", QuotaRules.CORES, "-4", "10")), builtIn(), 1000);
    assertEquals("20g 10000m 10 yarn 450g 150000m", rule(made.rules(), "*-*,*-*"));
    assertEquals(2, made.warnings().size(), made.warnings().toString());
    assertTrue(made.warnings().stream().anyMatch(w -> w.contains(QuotaRules.MEMORY) && w.contains("12Q") && w.contains("*-*,*-*")));
  }

  @Test
  void usersTimesCreatorsAreNotAllLookedAt() {
    List<ConfigurationRow> rows = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      rows.add(row("u" + i + "-*,spark-3", QuotaRules.MEMORY, "1G", ""));
      rows.add(row("u" + i + "-c" + i + ",spark-3", QuotaRules.MEMORY, "2G", ""));
      rows.add(row("*-c" + i + ",spark-3", QuotaRules.MEMORY, "3G", ""));
    }
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long start = threads.getCurrentThreadCpuTime(); // other processes take their time, too
    QuotaRules made = new QuotaRules(rows, builtIn(), 1000);
    List<Quota> rules = made.rules();
    long took = threads.getCurrentThreadCpuTime() - start;
    assertTrue(took < 5_000_000_000L, "seconds: " + took / 1e9);
    assertEquals("3g 10000m 10 yarn 450g 150000m", rule(rules, "*-c7,spark-3"));
    assertEquals("2g 10000m 10 yarn 450g 150000m", rule(rules, "u7-c7,spark-3"));
    assertEquals("none", rule(rules, "u7-*,spark-3"), "it would tie with those of creators");
    assertTrue(made.warnings().stream().anyMatch(w -> w.contains("1000 users")), made.warnings().toString());
  }

  @Test
  void sizesAreReadAsLinkisReadsThem() {
    assertEquals(20L << 30, QuotaRules.parseBytes("20G"));
    assertEquals(20L << 30, QuotaRules.parseBytes("20gb"));
    assertEquals(512L << 20, QuotaRules.parseBytes("512m"));
    assertEquals(7, QuotaRules.parseBytes("7"));
    assertEquals(7, QuotaRules.parseBytes("7b"));
    assertEquals(Long.MAX_VALUE, QuotaRules.parseBytes("9223372036854775807t"));
    assertEquals(Long.MAX_VALUE, QuotaRules.parseBytes("99999999999999999999"));
    for (String text : new String[] {"", "g", "-1g", "1.5g", "1 g", "1q"}) {
      assertThrows(RuntimeException.class, () -> QuotaRules.parseBytes(text), text);
    }
  }

  @Test
  void aLargeValueIsNotReplacedByTheDefault() {
    Map<String, String> large = builtIn();
    large.put(QuotaRules.MEMORY, "300G");
    for (int millisPerCore : new int[] {1, 1000, 100_000, 1_000_000}) {
      QuotaRules made = new QuotaRules(List.of(row("*-*,spark-3", QuotaRules.MEMORY, "9T", "")), large, millisPerCore);
      List<Quota> rules = made.rules();
      assertEquals("300g " + 10L * millisPerCore + "m 10 yarn 450g 150000m", rule(rules, "*-*,*-*"));
      assertEquals("9216g " + 10L * millisPerCore + "m 10 yarn 450g 150000m", rule(rules, "*-*,spark-3"));
      assertEquals(0, made.warnings().size());
    }
  }

  @Test
  void theLargestNumberLimitsNothing() {
    List<ConfigurationRow> rows = new ArrayList<>();
    for (String key : KEYS) {
      boolean size = key.contains("memory");
      rows.add(row("*-*,spark-3", key, size ? "9223372036854775807" : "2147483647", ""));
      rows.add(row("*-*,hive-3", key, size ? "9999999T" : "99999999999999999999", ""));
    }
    rows.add(row("*-*,shell-1", QuotaRules.YARN_MEMORY, "8P", "")); // 2^53: one more than Bursar can count
    QuotaRules made = new QuotaRules(rows, builtIn(), 1000);
    Map<String, Resource> limits = new HashMap<>();
    made.rules().forEach(q -> limits.put(q.selector().get("engineType"), q.limit()));
    assertEquals(Resource.EMPTY, limits.get("spark"));
    assertEquals(Resource.EMPTY, limits.get("hive"));
    Resource queues = limits.get("shell").external().get(0).amount();
    assertFalse(queues.memoryBytes().isPresent());
    assertEquals(150_000, queues.cpuMillis().getAsLong());
    assertEquals(0, made.warnings().size(), made.warnings().toString());
  }

  @Test
  void whatIsNoCombinationIsNoScope() {
    for (String text : new String[] {"", "alice", "alice-IDE", "alice,spark-3", "a-b-c,spark-3", "alice-IDE,spark", "al*-IDE,spark-3", "-IDE,spark-3",
        "{\"creator\":\"IDE\",\"user\":\"alice\",\"engineType\":\"spark\",\"version\":\"3\"}"}) {
      assertEquals(Optional.empty(), Scope.parse(text), text);
    }
    assertEquals("3.2.1-wds", Scope.parse("alice-IDE,spark-3.2.1-wds").get().engineVersion);
  }

  /** Every combination gets what stock Linkis would give it, whatever is configured. */
  @Test
  void limitsAreThoseOfStock() {
    Random random = new Random(20261127);
    String[] users = {"alice", "bob", "*"};
    String[] creators = {"IDE", "batch", "*"};
    String[] engines = {"spark-3.2.1", "shell-1", "*-*"};
    for (int round = 0; round < 2000; round++) {
      Map<String, Map<String, ConfigurationRow>> tables = new HashMap<>();
      List<ConfigurationRow> rows = new ArrayList<>();
      int n = random.nextInt(12);
      for (int i = 0; i < n; i++) {
        String scope = users[random.nextInt(3)] + "-" + creators[random.nextInt(3)] + "," + engines[random.nextInt(3)];
        String key = KEYS[random.nextInt(KEYS.length)];
        String value = random.nextInt(3) == 0 ? "" : Integer.toString(1 + random.nextInt(4));
        if (tables.computeIfAbsent(scope, s -> new HashMap<>()).containsKey(key)) {
          continue;
        }
        ConfigurationRow row = row(scope, key, value, "9");
        tables.get(scope).put(key, row);
        rows.add(row);
      }
      List<Quota> rules = new QuotaRules(rows, builtIn(), 1000).rules();
      for (String user : new String[] {"alice", "bob", "carol"}) {
        for (String creator : new String[] {"IDE", "batch", "web"}) {
          for (String engine : new String[] {"spark-3.2.1", "shell-1", "hive-2"}) {
            Quota q = applies(rules, user, creator, engine);
            Map<String, String> stock = stock(tables, user, creator, engine);
            String where = user + "-" + creator + "," + engine + " of " + tables.keySet() + " in round " + round;
            assertEquals(QuotaRules.parseBytes(stock.get(QuotaRules.MEMORY)), q.limit().memoryBytes().getAsLong(), where);
            assertEquals(1000 * Long.parseLong(stock.get(QuotaRules.CORES)), q.limit().cpuMillis().getAsLong(), where);
            assertEquals(Long.parseLong(stock.get(QuotaRules.INSTANCES)), q.limit().instances().getAsLong(), where);
            assertEquals(
                1000 * Long.parseLong(stock.get(QuotaRules.YARN_CORES)), q.limit().external().get(0).amount().cpuMillis().getAsLong(), where);
          }
        }
      }
    }
  }

  /** The rule that Bursar applies: the one with the most exact values, of which there must be one. */
  private static Quota applies(List<Quota> rules, String user, String creator, String engine) {
    Map<String, String> labels = new HashMap<>();
    labels.put("system", "linkis");
    labels.put("user", user);
    labels.put("creator", creator);
    labels.put("engineType", engine.split("-", 2)[0]);
    labels.put("engineVersion", engine.split("-", 2)[1]);
    Quota best = null;
    long most = -1;
    boolean tie = false;
    for (Quota q : rules) {
      if (q.selector().entrySet().stream().allMatch(e -> e.getValue().equals("*") || e.getValue().equals(labels.get(e.getKey())))) {
        long exact = q.selector().values().stream().filter(v -> !v.equals("*")).count();
        tie = exact == most || exact < most && tie;
        if (exact > most) {
          most = exact;
          best = q;
        }
      }
    }
    assertTrue(best != null && !tie, "rules tie: " + rules);
    return best;
  }

  /** As ConfigurationService and UserConfiguration of Linkis 1.8.0 put the values together. */
  private static Map<String, String> stock(Map<String, Map<String, ConfigurationRow>> t, String user, String creator, String engine) {
    Map<String, String> values = new HashMap<>(builtIn());
    values.putAll(byLabel(t, "*", "*", "*-*"));
    values.putAll(byLabel(t, user, "*", "*-*"));
    values.putAll(byLabel(t, "*", "*", engine));
    values.putAll(byLabel(t, user, creator, engine));
    return values;
  }

  private static Map<String, String> byLabel(Map<String, Map<String, ConfigurationRow>> t, String user, String creator, String engine) {
    Map<String, String> defaults = new HashMap<>();
    values(t, "*-*," + engine).forEach((k, r) -> defaults.put(k, r.value));
    if (!creator.equals("*")) {
      values(t, "*-" + creator + "," + engine).forEach((k, r) -> defaults.put(k, r.value));
    }
    if (!user.equals("*")) {
      values(t, user + "-*," + engine).forEach((k, r) -> defaults.put(k, r.value));
    }
    Map<String, String> all = new HashMap<>();
    defaults.forEach((k, v) -> {
      if (!v.isEmpty()) {
        all.put(k, v);
      }
    });
    values(t, user + "-" + creator + "," + engine).forEach((k, r) -> {
      String v = r.value.isEmpty() ? r.defaultValue : r.value;
      if (!v.isEmpty()) {
        all.put(k, v);
      }
    });
    return all;
  }

  private static Map<String, ConfigurationRow> values(Map<String, Map<String, ConfigurationRow>> t, String scope) {
    return t.getOrDefault(scope, Collections.emptyMap());
  }
}
