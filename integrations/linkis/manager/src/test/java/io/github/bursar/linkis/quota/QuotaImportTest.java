package io.github.bursar.linkis.quota;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.Quota;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.RealBursar;
import io.github.bursar.linkis.quota.ConfigurationRow.Scope;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** With a real coordinator. */
class QuotaImportTest {
  private static RealBursar bursar;
  private static BursarClient client;
  private final List<ConfigurationRow> tables = new ArrayList<>();
  private QuotaImport imported;

  @BeforeAll
  static void start() throws Exception {
    bursar = new RealBursar();
    client = bursar.client();
  }

  @AfterAll
  static void stop() {
    client.close();
    bursar.close();
  }

  @BeforeEach
  void clean() {
    client.applyQuotas(QuotaImport.SOURCE, List.of(), true, false, true);
    client.allQuotas().quotas().forEach(q -> client.deleteQuota(q.selector()));
    imported = new QuotaImport(() -> tables, client, QuotaRulesTest.builtIn(), 1000);
  }

  private void configure(String scope, String key, String value) {
    tables.removeIf(r -> r.scope.toString().equals(scope) && r.key.equals(key));
    if (value != null) {
      tables.add(new ConfigurationRow(Scope.parse(scope).get(), key, value, ""));
    }
  }

  /** "selector source memory" of each rule. */
  private static Map<String, String> rules() {
    Map<String, String> m = new TreeMap<>();
    for (Quota q : client.allQuotas().quotas()) {
      m.put(String.join("/", new TreeMap<>(q.selector()).values()).replace("/linkis", ""), q.source() + " " + q.limit().memoryBytes().orElse(-1) / (1 << 30));
    }
    return m;
  }

  private static Map<String, String> selector(String user, String creator, String type, String version) {
    Map<String, String> s = new LinkedHashMap<>();
    s.put("system", "linkis");
    s.put("user", user);
    s.put("creator", creator);
    s.put("engineType", type);
    s.put("engineVersion", version);
    return s;
  }

  private static final Resource ONE_GIB = Resource.builder().memoryBytes(1L << 30).build();

  @Test
  void rulesFollowTheConfiguration() {
    imported.run();
    assertEquals(Map.of("*/*/*/*", "import:linkis 20"), rules());

    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, "8G");
    imported.run();
    assertEquals(Map.of("*/*/*/*", "import:linkis 20", "IDE/spark/3.2.1/alice", "import:linkis 8"), rules());

    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, "9G");
    imported.run();
    assertEquals("import:linkis 9", rules().get("IDE/spark/3.2.1/alice"));

    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, null);
    imported.run();
    assertEquals(Map.of("*/*/*/*", "import:linkis 20"), rules());
  }

  @Test
  void nothingIsWrittenIfNothingHasChanged() {
    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, "8G");
    imported.run();
    long before = client.allQuotas().revision();
    imported.run();
    new QuotaImport(() -> tables, client, QuotaRulesTest.builtIn(), 1000).run(); // another manager
    assertEquals(before, client.allQuotas().revision());
  }

  @Test
  void nobodyElseChangesImportedRules() {
    imported.run();
    Map<String, String> all = selector("*", "*", "*", "*");
    assertThrows(BursarException.class, () -> client.putQuota(Quota.builder(all).limit(ONE_GIB).build(), true));
    assertThrows(BursarException.class, () -> client.deleteQuota(all));
    assertEquals(Map.of("*/*/*/*", "import:linkis 20"), rules());
  }

  @Test
  void rulesOfOthersAreLeftAlone() {
    Map<String, String> theirs = selector("alice", "IDE", "spark", "3.2.1");
    client.putQuota(Quota.builder(theirs).limit(ONE_GIB).build(), true);
    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, "8G");
    configure("bob-IDE,spark-3.2.1", QuotaRules.MEMORY, "7G");
    imported.run();
    assertEquals("api 1", rules().get("IDE/spark/3.2.1/alice"));
    assertEquals("import:linkis 7", rules().get("IDE/spark/3.2.1/bob"));

    client.deleteQuota(theirs);
    imported.run();
    assertEquals("import:linkis 8", rules().get("IDE/spark/3.2.1/alice"));
  }

  @Test
  void aRuleThatBursarRefusesDoesNotHoldUpTheOthers() {
    // ties with the rule of alice for spark
    client.putQuota(Quota.builder(selector("*", "IDE", "spark", "3.2.1")).limit(ONE_GIB).build(), true);
    configure("alice-*,spark-3.2.1", QuotaRules.MEMORY, "8G");
    configure("bob-IDE,shell-1", QuotaRules.MEMORY, "7G");
    imported.run();
    assertEquals("import:linkis 7", rules().get("IDE/shell/1/bob"));
    assertEquals("api 1", rules().get("IDE/spark/3.2.1/*"));
    assertTrue(!rules().containsKey("*/spark/3.2.1/alice"), rules().toString());
  }

  @Test
  void ifMoreThanFiftyRulesTieNoneIsImportedUntilTheOtherRuleHasOtherLabels() {
    Map<String, String> theirs = selector("*", "IDE", "spark", "3.2.1");
    client.putQuota(Quota.builder(theirs).limit(ONE_GIB).build(), true);
    for (int i = 0; i < 51; i++) {
      configure("u" + i + "-*,spark-3.2.1", QuotaRules.MEMORY, "8G");
    }
    configure("bob-IDE,shell-1", QuotaRules.MEMORY, "7G");
    imported.run();
    assertEquals(Set.of("IDE/spark/3.2.1/*"), rules().keySet());

    client.deleteQuota(theirs);
    theirs = new TreeMap<>(theirs);
    theirs.put("tenant", "a");
    client.putQuota(Quota.builder(theirs).limit(ONE_GIB).build(), true);
    imported.run();
    assertEquals(2 + 51 + 1, rules().size(), "with the built-in one and that of others");
  }

  @Test
  void requestsOfOthersAreNotLimited() {
    configure("*-*,*-*", QuotaRules.MEMORY, "1m");
    configure("alice-*,spark-3", QuotaRules.MEMORY, "2m");
    imported.run();
    AllocateRequest.Builder request =
        AllocateRequest.builder()
            .host(client.allHosts().items().get(0).id())
            .resource(Resource.builder().memoryBytes(3 << 20).build());
    assertGranted(request.label("user", "bob"));
    assertGranted(request.label("user", "alice"));
    assertGranted(request.label("creator", "IDE").label("engineType", "spark").label("engineVersion", "3"));
    request.label("system", "linkis");
    assertThrows(BursarException.class, () -> client.allocate(request.build()));
  }

  private static void assertGranted(AllocateRequest.Builder request) {
    Allocation a = client.allocate(request.build());
    assertEquals(AllocationState.RESERVED, a.state());
    client.cancel(a.id(), "tried");
  }

  @Test
  void aCombinationWithoutLimitsHasARuleThatSaysSo() {
    for (String key : new String[] {
      QuotaRules.MEMORY, QuotaRules.CORES, QuotaRules.INSTANCES, QuotaRules.YARN_MEMORY, QuotaRules.YARN_CORES
    }) {
      configure("*-*,spark-3.2.1", key, key.contains("memory") ? "9223372036854775807" : "2147483647");
    }
    imported.run();
    assertEquals("import:linkis 0", rules().get("*/spark/3.2.1/*"), rules().toString());
    long before = client.allQuotas().revision();
    imported.run();
    assertEquals(before, client.allQuotas().revision());
  }

  @Test
  void namesThatBursarDoesNotTakeDoNotHoldUpTheOthers() {
    for (int i = 0; i < 60; i++) {
      configure("eve-c" + i + "\u0001,spark-3.2.1", QuotaRules.MEMORY, "1G");
      configure("eve-" + "c".repeat(256) + i + ",spark-3.2.1", QuotaRules.MEMORY, "1G");
      configure("eve-c" + i + "\ud800,spark-3.2.1", QuotaRules.MEMORY, "1G");
    }
    configure("bob-IDE,spark-3.2.1", QuotaRules.MEMORY, "7G");
    imported.run();
    assertEquals(Map.of("*/*/*/*", "import:linkis 20", "IDE/spark/3.2.1/bob", "import:linkis 7"), rules());
  }

  @Test
  void aUserWithManyRulesDoesNotHoldUpTheOthers() {
    for (int i = 0; i < 4000; i++) {
      tables.add(new ConfigurationRow(new Scope("eve", "c" + i, "spark", "3.2.1"), QuotaRules.MEMORY, "1G", ""));
    }
    configure("*-*,spark-3.2.1", QuotaRules.MEMORY, "9G");
    configure("bob-IDE,spark-3.2.1", QuotaRules.MEMORY, "7G");
    imported.run();
    Map<String, String> rules = rules();
    assertEquals("import:linkis 7", rules.get("IDE/spark/3.2.1/bob"));
    assertEquals("import:linkis 9", rules.get("*/spark/3.2.1/*"));
    assertEquals(100, rules.keySet().stream().filter(r -> r.endsWith("/eve")).count());
  }

  @Test
  void generalRulesComeFirstIfNotAllFit() {
    for (int i = 0; i < 5000; i++) {
      tables.add(new ConfigurationRow(new Scope("user" + i, "IDE", "spark", "3.2.1"), QuotaRules.MEMORY, "1G", ""));
    }
    configure("*-*,spark-3.2.1", QuotaRules.MEMORY, "9G");
    imported.run();
    Map<String, String> rules = rules();
    assertEquals("import:linkis 9", rules.get("*/spark/3.2.1/*"));
    assertTrue(rules.size() > 1000, "" + rules.size());
  }

  @Test
  void theRulesOfAUserAreThereWithThoseThatSettleTheirTies() {
    for (int c = 0; c < 60; c++) {
      configure("*-c" + c + ",spark-3.2.1", QuotaRules.MEMORY, "3G");
    }
    for (int u = 0; u < 100; u++) {
      configure("user" + u + "-*,spark-3.2.1", QuotaRules.MEMORY, "2G");
    }
    imported.run();
    Map<String, Integer> ofUser = new TreeMap<>();
    rules().keySet().forEach(r -> ofUser.merge(r.substring(r.lastIndexOf('/') + 1), 1, Integer::sum));
    assertEquals(61, ofUser.remove("*"));
    assertTrue(ofUser.size() > 20, ofUser.toString());
    ofUser.forEach((user, rules) -> assertEquals(61, rules, user));
  }

  @Test
  void ifTheTablesCannotBeReadTheRulesStay() {
    configure("alice-IDE,spark-3.2.1", QuotaRules.MEMORY, "8G");
    imported.run();
    Map<String, String> before = rules();
    new QuotaImport(() -> {
      throw new java.sql.SQLException("gone");
    }, client, QuotaRulesTest.builtIn(), 1000).run();
    assertEquals(before, rules());
  }
}
